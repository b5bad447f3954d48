#include "common/data/dataset.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "build_config.hpp"
#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/temporary_folder.hpp"

namespace ultra::data {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string text_of(const Dataset& dataset) {
  std::string text;
  for (std::size_t i = 0; i < dataset.size(); ++i) text += static_cast<char>(dataset[i]);
  return text;
}

std::string refusal(const std::string& path) {
  return test::message_of<FileError>([&] { static_cast<void>(Dataset::from_file(path)); });
}

/// Names the file and says what to do.
auto names(const std::string& path) {
  return AllOf(HasSubstr("data file '" + path + "'"), HasSubstr("Give --data"));
}

class DatasetFiles : public ::testing::Test {
 protected:
  test::TemporaryFolder folder;
};

TEST_F(DatasetFiles, OneTokenPerByte) {
  const std::string path = folder.write("text", "Caf\xC3\xA9\n");
  const Dataset dataset = Dataset::from_file(path);
  ASSERT_EQ(dataset.size(), 6U) << "a letter of two bytes is two tokens";
  EXPECT_EQ(dataset[0], 'C');
  EXPECT_EQ(dataset[3], 0xC3);
  EXPECT_EQ(dataset[4], 0xA9);
  EXPECT_EQ(dataset[5], '\n');
  EXPECT_EQ(dataset.source(), path);
}

TEST_F(DatasetFiles, AllByteValuesAreTokens) {
  std::string all;
  for (int round = 0; round < 400; ++round) {
    for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  }
  const Dataset dataset = Dataset::from_file(folder.write("binary", all));
  ASSERT_EQ(dataset.size(), all.size()) << "no byte may end or change the text";
  for (std::size_t i = 0; i < dataset.size(); ++i) {
    ASSERT_EQ(dataset[i], static_cast<std::int32_t>(i % kByteVocabulary)) << "at " << i;
  }
}

TEST_F(DatasetFiles, AMissingFileIsNamed) {
  const std::string path = folder.path("nowhere.txt");
  EXPECT_THAT(refusal(path), AllOf(names(path), HasSubstr("does not exist")));
}

TEST_F(DatasetFiles, AFolderIsNoText) {
  EXPECT_THAT(refusal(folder.path()), AllOf(names(folder.path()), HasSubstr("is a folder")));
}

TEST_F(DatasetFiles, AnEmptyFileIsNoText) {
  const std::string path = folder.write("empty", "");
  EXPECT_THAT(refusal(path), AllOf(names(path), HasSubstr("is empty")));
}

TEST_F(DatasetFiles, ADeviceIsNoText) {
  EXPECT_THAT(refusal("/dev/zero"), AllOf(names("/dev/zero"), HasSubstr("not a regular file")))
      << "reading it would never end";
}

TEST_F(DatasetFiles, AFileWithoutPermissionSaysSo) {
  const std::string path = folder.write("secret", "text");
  fs::permissions(path, fs::perms::none);
  fs::permissions(folder.path(), fs::perms::all);
  const test::WithoutPrivileges nobody;
  EXPECT_THAT(refusal(path), AllOf(HasSubstr("'" + path + "' cannot be read"),
                                   HasSubstr("Permission denied"), HasSubstr("permissions")));
}

TEST_F(DatasetFiles, AFileInAClosedFolderIsNotCalledMissing) {
  const std::string path = folder.write("closed/text", "text");
  fs::permissions(folder.path("closed"), fs::perms::none);
  const test::WithoutPrivileges nobody;
  EXPECT_THAT(refusal(path), HasSubstr("Permission denied"));
}

// This process's memory: a regular file whose first page can be opened but not read.
TEST_F(DatasetFiles, AFailingReadIsReported) {
  if (!fs::is_regular_file("/proc/self/mem")) GTEST_SKIP() << "this system has no /proc/self/mem";
  EXPECT_THAT(refusal("/proc/self/mem"),
              AllOf(names("/proc/self/mem"), HasSubstr("Input/output error")));
}

TEST_F(DatasetFiles, TheWorkbooksTextIsItsPagesAndSourcesInPathOrder) {
  folder.write("common/b/two.hpp", "2");
  folder.write("common/b/three.cpp", "1");
  folder.write("chapters/01_a/page.md", "page ");
  folder.write("kernels/k.cu", "cuda ");
  folder.write("tools/t.py", "python");
  folder.write("solutions/s.cpp", "solution ");
  folder.write("chapters/01_a/picture.png", "never");
  folder.write("build/release/copy.cpp", "never");
  folder.write("README.md", "never");
  const Dataset dataset = Dataset::workbook(folder.path());
  EXPECT_EQ(text_of(dataset), "page 12cuda solution python");
  EXPECT_THAT(dataset.source(), HasSubstr("workbook"));
}

TEST_F(DatasetFiles, TheWorkbooksTextIsThere) {
  const Dataset dataset = Dataset::workbook(build::kSourceDir);
  EXPECT_GT(dataset.size(), 100'000U);
  const std::string text = text_of(dataset);
  EXPECT_THAT(text, HasSubstr("TheWorkbooksTextIsThere")) << "this file is a part of it";
  EXPECT_EQ(text, text_of(Dataset::workbook(build::kSourceDir))) << "its order is fixed";
}

TEST(DatasetHash, IsTheTexts) {
  EXPECT_EQ(Dataset({}, "empty").hash(), 0xcbf29ce484222325U) << "FNV-1a of nothing, RFC 9923";
  EXPECT_EQ(Dataset({'a'}, "letter").hash(), 0xaf63dc4c8601ec8cU) << "of one letter, likewise";
  const Dataset text({'a', 'b', 'c'}, "here");
  EXPECT_EQ(text.hash(), Dataset({'a', 'b', 'c'}, "there").hash());
  EXPECT_NE(text.hash(), Dataset({'a', 'c', 'b'}, "here").hash());
}

TEST_F(DatasetFiles, AFolderWithoutTheWorkbooksTextIsNamed) {
  EXPECT_THAT(
      test::message_of<FileError>([&] { static_cast<void>(Dataset::workbook(folder.path())); }),
      AllOf(HasSubstr("'" + folder.path() + "'"), HasSubstr("Give --data")));
}

}  // namespace
}  // namespace ultra::data

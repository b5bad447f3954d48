#include "common/data/dataset.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "build_config.hpp"
#include "common/base/errors.hpp"
#include "common/base/interrupt.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/sanitizer.hpp"
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

// A file that is all hole takes no space.
TEST_F(DatasetFiles, AFileLargerThanTheMachinesMemoryIsRefusedBeforeItIsRead) {
  const std::string path = folder.write("huge", "text");
  std::error_code no_such_files;
  fs::resize_file(path, 8'000'000'000'000, no_such_files);
  if (no_such_files) GTEST_SKIP() << "this file system holds no file of 8 TB";
  EXPECT_THAT(refusal(path), AllOf(names(path), HasSubstr("is too large"), HasSubstr("8.00 TB"),
                                   HasSubstr("of memory")));
}

TEST_F(DatasetFiles, ATextThatTheProcessMayNotHoldIsRefused) {
  if (test::sanitizer_owns_the_heap()) GTEST_SKIP() << "the sanitizer ends the program instead";
  const std::string path = folder.write("large", "text");
  fs::resize_file(path, 1'000'000'000);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  const rlimit now{.rlim_cur = 500'000'000, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &now), 0);
  std::string message;
  EXPECT_NO_THROW(message = refusal(path)) << "an error in words, no std::bad_alloc";
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_THAT(message, AllOf(names(path), HasSubstr("is too large"), HasSubstr("1.00 GB")));
}

TEST_F(DatasetFiles, ReadingEndsWhenTheProgramIsToldToStop) {
  const std::string path = folder.write("text", std::string(1000, 'x'));
  const InterruptGuard guard;
  std::raise(SIGINT);
  EXPECT_THROW(static_cast<void>(Dataset::from_file(path)), Interrupted);
}

class WorkbooksText : public DatasetFiles {
 protected:
  static Dataset committed() { return Dataset::workbook(build::kSourceDir); }
  static std::string bytes() {
    return test::read_file(std::string(build::kSourceDir) + "/data/workbook.txt");
  }
  [[nodiscard]] std::string refusal() const {
    return test::message_of<FileError>(
        [&] { static_cast<void>(Dataset::workbook(folder.path())); });
  }
};

TEST_F(WorkbooksText, IsACommittedFile) {
  EXPECT_EQ(text_of(committed()), bytes());
  EXPECT_EQ(committed().size(), 999'938U);
  EXPECT_EQ(committed().source(), "the workbook's own text");
}

TEST_F(WorkbooksText, IsTheSameWhateverALearnerEdits) {
  folder.write("data/workbook.txt", bytes());
  folder.write("exercises/01_memory/recompute.cpp", "my answer");
  folder.write("chapters/01_memory/01_memory.md", "my notes");
  folder.write("data/mine.txt", "my text");
  EXPECT_EQ(Dataset::workbook(folder.path()).hash(), committed().hash());
}

TEST_F(WorkbooksText, IsRefusedWhenItHasBeenChanged) {
  std::string changed = bytes();
  changed[500'000] ^= 1;
  folder.write("data/workbook.txt", changed);
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr("'" + folder.path("data/workbook.txt") + "' has been changed"),
                    HasSubstr("the hash 7a6af43e3a87a024"), HasSubstr("--data"),
                    HasSubstr("git checkout -- data/workbook.txt")));
  folder.write("data/workbook.txt", bytes().substr(1));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("999,937 bytes"), HasSubstr("999,938 bytes")));
}

TEST_F(WorkbooksText, IsNamedWhenItIsMissing) {
  EXPECT_THAT(refusal(), AllOf(HasSubstr("'" + folder.path("data/workbook.txt") + "'"),
                               HasSubstr("does not exist"), HasSubstr("give --data"),
                               HasSubstr("git checkout -- data/workbook.txt")));
}

TEST(DatasetHash, IsTheTexts) {
  EXPECT_EQ(Dataset({'a', 'b', 'c'}, "here").hash(), 0x44bc2cf5ad770999U) << "XXH64 of abc";
  EXPECT_EQ(Dataset({'a', 'b', 'c'}, "there").hash(), 0x44bc2cf5ad770999U);
  EXPECT_NE(Dataset({'a', 'c', 'b'}, "here").hash(), 0x44bc2cf5ad770999U);
}

}  // namespace
}  // namespace ultra::data

// Covers: common/data/text_hash.hpp
// Covers: common/data/shared_dataset.hpp

#include "common/data/dataset.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "build_config.hpp"
#include "common/base/interrupt.hpp"
#include "common/data/shared_dataset.hpp"
#include "common/data/text_hash.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/sanitizer.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::data {
namespace {

namespace fs = std::filesystem;

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

TEST_F(DatasetFiles, WhatIsNoTextIsNamedWithTheReason) {
  const std::pair<std::string, const char*> none[] = {
      {folder.path("nowhere.txt"), "does not exist"},
      {folder.path(), "is a folder"},
      {folder.write("empty", ""), "is empty"},
      {"/dev/zero", "not a regular file"}};  // reading it would never end
  for (const auto& [path, reason] : none) {
    EXPECT_THAT(refusal(path), AllOf(names(path), HasSubstr(reason)));
  }
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
  static std::string bytes() {
    return test::read_file(std::string(build::kSourceDir) + "/data/workbook.txt");
  }
  [[nodiscard]] std::string refusal() const {
    return test::message_of<FileError>(
        [&] { static_cast<void>(Dataset::workbook(folder.path())); });
  }
};

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

std::uint64_t hash_of(const std::vector<std::uint8_t>& bytes) {
  TextHash hash;
  hash.add(bytes);
  return hash.value();
}

/// 0, 1, 2 ... 255, 0, 1 ...
std::vector<std::uint8_t> counting(std::size_t size) {
  std::vector<std::uint8_t> bytes(size);
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
  return bytes;
}

// Expected: what the author's implementation gives (xxh64 of the Python package xxhash 4.1.0).
TEST(TextHash, IsXxh64) {
  EXPECT_EQ(TextHash().value(), 0xef46db3751d8e999U);
  EXPECT_EQ(hash_of({'a'}), 0xd24ec4f1a98c6e5bU);
  EXPECT_EQ(hash_of({'a', 'b', 'c'}), 0x44bc2cf5ad770999U);
  EXPECT_EQ(hash_of(counting(31)), 0xc346d2b59b4d8ee1U) << "the last bytes without a stripe";
  EXPECT_EQ(hash_of(counting(32)), 0xcbf59c5116ff32b4U) << "one stripe";
  EXPECT_EQ(hash_of(counting(33)), 0x0c535d1acafb8eadU) << "and a byte";
  EXPECT_EQ(hash_of(counting(1280)), 0xafc184ad7938a354U);
}

TEST(TextHash, DoesNotDependOnThePiecesInWhichTheTextComes) {
  const std::uint64_t seed = test::seed_of_this_run();
  SCOPED_TRACE(testing::Message() << "ULTRA_TEST_SEED=" << seed);
  test::Random random(seed);
  for (int round = 0; round < 200; ++round) {
    const std::vector<std::uint8_t> bytes = counting(random.between(0, 300));
    TextHash in_pieces;
    std::span<const std::uint8_t> left = bytes;
    while (!left.empty()) {
      const std::size_t size = random.between(0, std::min<std::size_t>(left.size(), 70));
      in_pieces.add(left.first(size));
      left = left.subspan(size);
    }
    ASSERT_EQ(in_pieces.value(), hash_of(bytes)) << bytes.size() << " bytes";
  }
}

TEST(SharedDataset, EveryRankGetsTheErrorAndANewTryMaySucceed) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("text");
  SharedDataset text;
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_THAT(test::message_of<FileError>([&] { static_cast<void>(text.open({.path = path})); }),
                testing::HasSubstr("does not exist"));
  }
  folder.write("text", "abc");
  EXPECT_EQ(text.open({.path = path}).size(), 3U);
  std::filesystem::remove(path);
  EXPECT_EQ(text.open({.path = path}).size(), 3U) << "it has been read";
}

TEST(SharedDataset, RefusesATokenOutsideOfTheVocabulary) {
  const test::TemporaryFolder folder;
  const std::string path = folder.write("text", "abz");
  EXPECT_THAT(test::message_of<FileError>([&] {
                static_cast<void>(SharedDataset().open({.path = path, .vocab_size = 100}));
              }),
              testing::AllOf(testing::HasSubstr("token 122 at index 2 (byte 2 of the file)"),
                             testing::HasSubstr("[0, 100)")));
}

}  // namespace
}  // namespace ultra::data

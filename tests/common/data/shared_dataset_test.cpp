#include "common/data/shared_dataset.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <barrier>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "build_config.hpp"
#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/sanitizer.hpp"
#include "tests/support/temporary_folder.hpp"

namespace ultra::data {
namespace {

/// What this process has in memory now, as the system counts.
std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t all = 0;
  std::size_t resident = 0;
  file >> all >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

TEST(SharedDataset, FourRanksHoldOneCopyOfALargeText) {
  if (test::sanitizer_owns_the_heap()) GTEST_SKIP() << "a sanitizer's memory counts too";
  constexpr std::size_t kSize = 64'000'000;
  const test::TemporaryFolder folder;
  const std::string path = folder.write("text", std::string(kSize, 'x'));
  SharedDataset text;
  const std::size_t before = resident_bytes();
  std::size_t at_most = 0;
  std::barrier all_have_it(4, [&]() noexcept { at_most = resident_bytes() - before; });
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    ranks.emplace_back([&] {
      const Dataset own = text.open({.path = path});
      all_have_it.arrive_and_wait();
      EXPECT_EQ(own.size(), kSize);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_GE(at_most, kSize);
  EXPECT_LT(at_most, 2 * kSize) << "one copy, and what threads and reading take";
}

TEST(SharedDataset, OpensAFileOrTheWorkbooksOwnText) {
  const test::TemporaryFolder folder;
  const std::string path = folder.write("text", "abc");
  EXPECT_EQ(SharedDataset().open({.path = path}).source(), path);
  EXPECT_EQ(SharedDataset().open({}).hash(), Dataset::workbook(build::kSourceDir).hash());
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

TEST(SharedDataset, HasATextForTheTrainingAndOneForItsValidation) {
  const test::TemporaryFolder folder;
  const std::string one = folder.write("one", "1");
  const std::string other = folder.write("other", "22");
  SharedDataset text;
  EXPECT_EQ(text.open({.path = one}).size(), 1U);
  EXPECT_EQ(text.open({.path = other}).size(), 2U);
  EXPECT_EQ(text.open({.path = one}).source(), one);
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

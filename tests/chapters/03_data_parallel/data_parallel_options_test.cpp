#include "chapters/03_data_parallel/data_parallel_options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/parse_options.hpp"

namespace ultra::data_parallel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::ultra::test::message_of;
using Words = std::vector<std::string>;

DataParallelOptions parse(const Words& arguments) {
  return ::ultra::test::parsed<DataParallelOptions>(arguments);
}

train::CommOptions ranks(std::optional<std::size_t> count) {
  train::CommOptions comm;
  comm.ranks = count;
  return comm;
}

TEST(DataParallelOptions, DefaultsAreBucketsInAFixedOrderOfSummation) {
  const DataParallelOptions options = parse({});
  EXPECT_NO_THROW(options.validate());
  EXPECT_EQ(options.overlap, Overlap::kBucketed);
  EXPECT_EQ(options.all_reduce, "pairwise");
  EXPECT_TRUE(options.error_feedback);
  EXPECT_EQ(options.all_reduce_flag(), "");
}

TEST(DataParallelOptions, NotesTheFlagsThatOnlyAnAllReduceHas) {
  EXPECT_EQ(parse({"--overlap", "none"}).all_reduce_flag(), "--overlap");
  EXPECT_EQ(parse({"--bucket-mb", "2"}).all_reduce_flag(), "--bucket-mb");
  EXPECT_EQ(parse({"--compress", "int8"}).all_reduce_flag(), "--compress");
  EXPECT_EQ(parse({"--check-replicas", "1"}).all_reduce_flag(), "--check-replicas");
  EXPECT_EQ(parse({"--dp", "2"}).all_reduce_flag(), "");
}

TEST(DataParallelOptions, DpAsksForItsRanks) {
  train::CommOptions comm = ranks(std::nullopt);
  parse({"--dp", "3"}).resolve_ranks(comm, 2);
  EXPECT_EQ(comm.ranks, 5U);
  EXPECT_EQ(DataParallelOptions::replicas(comm, 2), 3);

  comm = ranks(4);
  parse({}).resolve_ranks(comm, 1);
  EXPECT_EQ(comm.ranks, 4U) << "without --dp all ranks beside the servers are replicas";
  EXPECT_EQ(DataParallelOptions::replicas(comm, 1), 3);
}

TEST(DataParallelOptions, RanksThatSaySomethingElseAreRefused) {
  train::CommOptions comm = ranks(4);
  EXPECT_THAT(message_of<ConfigError>([&] {
                parse({"--dp", "2"}).resolve_ranks(comm, 1);
              }),
              AllOf(HasSubstr("--dp 2 and --servers 1: 3 ranks"), HasSubstr("--ranks is 4")));
  EXPECT_THAT(
      message_of<ConfigError>([&] { static_cast<void>(DataParallelOptions::replicas(comm, 4)); }),
      HasSubstr("leave none of 4 ranks"));
}

TEST(DataParallelOptions, AReplicaMayTakeSeveralRanks) {
  const ReplicaSize replica{.ranks = 4, .flags = "--tp 4"};
  train::CommOptions comm = ranks(std::nullopt);
  parse({"--dp", "2"}).resolve_ranks(comm, 0, replica);
  EXPECT_EQ(comm.ranks, 8U);
  EXPECT_EQ(DataParallelOptions::replicas(comm, 0, replica), 2);

  comm = ranks(std::nullopt);
  parse({}).resolve_ranks(comm, 0, replica);
  EXPECT_EQ(comm.ranks, 4U) << "one replica";

  comm = ranks(6);
  EXPECT_THAT(message_of<ConfigError>(
                  [&] { static_cast<void>(DataParallelOptions::replicas(comm, 0, replica)); }),
              AllOf(HasSubstr("6 ranks are no whole replicas of 4"), HasSubstr("6 % 4 = 2")));
  EXPECT_THAT(message_of<ConfigError>([&] {
                parse({"--dp", "2"}).resolve_ranks(comm, 0, replica);
              }),
              AllOf(HasSubstr("--dp 2 and --tp 4: 8 ranks"), HasSubstr("--ranks is 6")));
}

TEST(DataParallelOptions, ABucketHoldsAsManyElementsAsItsMegabytes) {
  const DataParallelOptions options = parse({"--bucket-mb", "0.5"});
  EXPECT_EQ(options.bucket_capacity(DType::kF32), 125'000U);
  EXPECT_EQ(options.bucket_capacity(DType::kF64), 62'500U);
}

TEST(DataParallelOptions, EveryReplicaNeedsASequence) {
  EXPECT_NO_THROW(DataParallelOptions::expect_work_for_all(3, 3));
  EXPECT_THROW(DataParallelOptions::expect_work_for_all(2, 3), ConfigError);
}

}  // namespace
}  // namespace ultra::data_parallel

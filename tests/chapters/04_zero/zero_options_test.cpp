#include "chapters/04_zero/zero_options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "common/base/errors.hpp"
#include "common/comm/collectives/schedule.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/parse_options.hpp"

namespace ultra::zero {
namespace {

using data_parallel::DataParallelOptions;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::ultra::test::message_of;
using Words = std::vector<std::string>;

/// The flags of chapters 03 and 04 as one command line sets them.
class ZeroOptionsTest : public ::testing::Test {
 protected:
  void parse(const Words& arguments) { ultra::test::parse_into(arguments, data_parallel, zero); }

  void expect_valid(const Words& arguments) {
    ZeroOptionsTest::reset();
    parse(arguments);
    EXPECT_NO_THROW(zero.validate(data_parallel, 0)) << ::testing::PrintToString(arguments);
  }

  void expect_refused(const Words& arguments, const std::string& part, const std::string& why,
                      std::size_t servers = 0) {
    ZeroOptionsTest::reset();
    parse(arguments);
    EXPECT_THAT(message_of<ConfigError>([&] { zero.validate(data_parallel, servers); }),
                AllOf(HasSubstr(part), HasSubstr(why)))
        << ::testing::PrintToString(arguments);
  }

  [[nodiscard]] ZeroSettings settings(const Words& arguments, DType dtype = DType::kF32) {
    ZeroOptionsTest::reset();
    parse(arguments);
    return zero.settings(data_parallel, dtype);
  }

  void reset() {
    data_parallel = {};
    zero = {};
  }

  DataParallelOptions data_parallel;
  ZeroOptions zero;
};

TEST_F(ZeroOptionsTest, ByDefaultNothingIsSharded) {
  expect_valid({});
  EXPECT_EQ(zero.stage, ZeroStage::kNone);
  EXPECT_FALSE(zero.shards());
  EXPECT_EQ(zero.reduce_scatter, "pairwise");
}

TEST_F(ZeroOptionsTest, StagesAreNumbers) {
  for (const ZeroStage stage : kZeroStages) {
    expect_valid({"--zero", std::to_string(number_of(stage))});
    EXPECT_EQ(zero.stage, stage);
    EXPECT_EQ(zero.shards(), stage != ZeroStage::kNone);
  }
  for (const char* bad : {"4", "-1", "three", ""}) {
    EXPECT_THAT(
        message_of<ConfigError>([&] {
          parse({"--zero", bad});
        }),
        AllOf(HasSubstr("--zero is '" + std::string(bad) + "'"), HasSubstr("0, 1, 2 or 3")));
  }
}

TEST_F(ZeroOptionsTest, ReshardIsYesOrNo) {
  expect_valid({"--zero", "3", "--reshard-after-forward", "no"});
  EXPECT_EQ(zero.reshard, Reshard::kAfterBackward);
  expect_valid({"--zero", "3", "--reshard-after-forward", "yes"});
  EXPECT_EQ(zero.reshard, Reshard::kAfterForward);
  EXPECT_THAT(message_of<ConfigError>([&] {
                parse({"--reshard-after-forward", "maybe"});
              }),
              AllOf(HasSubstr("--reshard-after-forward is 'maybe'"), HasSubstr("yes or no")));
}

TEST_F(ZeroOptionsTest, CountsAreWholeNumbers) {
  for (const char* flag : {"--prefetch", "--hybrid-shard"}) {
    for (const char* bad : {"-1", "1.5", "many"}) {
      EXPECT_THAT(message_of<CLI::ParseError>([&] { parse({flag, bad}); }), HasSubstr(flag));
    }
  }
}

TEST_F(ZeroOptionsTest, FlagsThatNeedAStageAreRefusedWithoutIt) {
  for (const char* stage : {"0", "1", "2"}) {
    expect_refused({"--zero", stage, "--prefetch", "1"}, "--prefetch has no meaning",
                   "without --zero 3");
    expect_refused({"--zero", stage, "--reshard-after-forward", "yes"},
                   "--reshard-after-forward has no meaning", "without --zero 3");
  }
  for (const char* stage : {"1", "2", "3"}) {
    expect_valid({"--zero", stage, "--hybrid-shard", "2"});
    EXPECT_NO_THROW(zero.expect_nodes_of(4));
  }
  expect_valid({"--hybrid-shard", "2"});  // an estimate is about all stages
  EXPECT_THAT(
      message_of<ConfigError>([&] { zero.expect_nodes_of(4); }),
      AllOf(HasSubstr("--hybrid-shard has no meaning"), HasSubstr("without --zero 1, 2 or 3")));
}

TEST_F(ZeroOptionsTest, ParameterServersAndCompressionDoNotGoTogetherWithShards) {
  for (const std::string stage : {"1", "2", "3"}) {
    expect_refused({"--zero", stage},
                   "--sync parameter-server does not go together with --zero " + stage,
                   "shards of their own", 1);
    expect_refused({"--zero", stage, "--compress", "int8"},
                   "--compress does not go together with --zero " + stage, "owner of a shard");
    expect_valid({"--zero", stage, "--compress", "none"});
  }
  expect_valid({"--zero", "0", "--compress", "int8"});
}

TEST_F(ZeroOptionsTest, Stage3HasUnitsInsteadOfBucketsAndReplicas) {
  const std::string with = " does not go together with --zero 3";
  expect_refused({"--zero", "3", "--check-replicas", "1"}, "--check-replicas" + with,
                 "no replicas of the weights");
  expect_refused({"--zero", "3", "--overlap", "per-parameter"}, "--overlap per-parameter" + with,
                 "whole blocks travel");
  expect_refused({"--zero", "3", "--bucket-mb", "0.25"}, "--bucket-mb" + with,
                 "whatever their size");
  expect_refused({"--zero", "3", "--overlap", "none", "--prefetch", "1"}, "--prefetch" + with,
                 "--overlap none waits");
  expect_valid({"--zero", "3", "--overlap", "none", "--prefetch", "0"});
  for (const char* stage : {"1", "2"}) {
    expect_valid({"--zero", stage, "--check-replicas", "1", "--overlap", "per-parameter"});
    expect_valid({"--zero", stage, "--bucket-mb", "1"});
  }
}

TEST_F(ZeroOptionsTest, AnUnknownReduceScatterIsRefusedWithTheNamesOfAll) {
  for (const char* stage : {"0", "1", "3"}) {
    expect_refused({"--zero", stage, "--reduce-scatter", "chain"}, "'chain'", "pairwise");
  }
  expect_valid({"--zero", "2", "--reduce-scatter", "ring"});
}

TEST_F(ZeroOptionsTest, NodesMakeUpTheReplicas) {
  expect_valid({"--zero", "3", "--hybrid-shard", "4"});
  EXPECT_NO_THROW(zero.expect_nodes_of(8));
  EXPECT_THAT(message_of<ConfigError>([&] { zero.expect_nodes_of(6); }),
              AllOf(HasSubstr("--hybrid-shard 4"), HasSubstr("6 ranks are not whole nodes of 4")));
  expect_valid({"--zero", "3", "--hybrid-shard", "0"});
  EXPECT_THROW(zero.expect_nodes_of(6), ConfigError);
  expect_valid({"--zero", "3"});
  EXPECT_NO_THROW(zero.expect_nodes_of(7));
}

TEST_F(ZeroOptionsTest, ShardingSaysWhoHasACopy) {
  expect_valid({"--zero", "2"});
  EXPECT_EQ(zero.sharding(6),
            (Sharding{.stage = ZeroStage::kGradients, .shards = 6, .replicas = 1}));
  expect_valid({"--zero", "2", "--hybrid-shard", "3"});
  EXPECT_EQ(zero.sharding(6),
            (Sharding{.stage = ZeroStage::kGradients, .shards = 3, .replicas = 2}));
}

TEST_F(ZeroOptionsTest, SettingsFollowTheFlagsOfBothChapters) {
  ZeroSettings found = settings({"--zero", "1", "--bucket-mb", "0.5"});
  EXPECT_EQ(found.stage, ZeroStage::kOptimizer);
  EXPECT_EQ(found.bucket_capacity, 125'000U);
  EXPECT_EQ(found.overlap, Overlap::kOn);
  EXPECT_EQ(settings({"--zero", "1", "--bucket-mb", "0.5"}, DType::kF64).bucket_capacity, 62'500U);
  EXPECT_EQ(settings({"--zero", "2", "--overlap", "per-parameter"}).bucket_capacity, 0U);
  EXPECT_EQ(settings({"--zero", "2", "--overlap", "none"}).overlap, Overlap::kOff);

  found = settings({"--zero", "3"});
  EXPECT_EQ(found.prefetch, 1U);
  EXPECT_EQ(found.reshard, Reshard::kAfterForward);
  EXPECT_EQ(settings({"--zero", "3", "--overlap", "none"}).prefetch, 0U);
  EXPECT_EQ(settings({"--zero", "3", "--prefetch", "2"}).prefetch, 2U);
  EXPECT_EQ(settings({"--zero", "3", "--reshard-after-forward", "no"}).reshard,
            Reshard::kAfterBackward);
}

/// By default sums of both operations are in the order of the ranks: an element of an array of two
/// has the same steps whichever rank owns it.
TEST_F(ZeroOptionsTest, AlgorithmsAreThoseThatTheFlagsName) {
  const auto steps = [&](const Words& arguments) {
    reset();
    parse(arguments);
    return zero.algorithms(data_parallel)
        ->reduce_scatter(comm::Group::all(1, 3), comm::Chunks::even({0, 9}, 3))
        .lanes;
  };
  EXPECT_EQ(steps({}), steps({"--reduce-scatter", "pairwise"}));
  EXPECT_NE(steps({}), steps({"--reduce-scatter", "ring"}));
  EXPECT_EQ(steps({"--all-reduce", "ring"}), steps({}));
}

TEST_F(ZeroOptionsTest, TheMetricsFileHasTheFlagsThatMatter) {
  const auto names = [&](const Words& arguments) {
    reset();
    parse(arguments);
    Words found;
    for (const auto& [name, value] : zero.config(data_parallel)) found.push_back(name);
    return found;
  };
  EXPECT_EQ(names({}), (Words{"zero"}));
  EXPECT_EQ(names({"--zero", "1"}), (Words{"zero", "hybrid_shard", "reduce_scatter"}));
  EXPECT_EQ(names({"--zero", "3"}),
            (Words{"zero", "hybrid_shard", "reduce_scatter", "prefetch", "reshard_after_forward"}));
}

TEST_F(ZeroOptionsTest, TheMetricsFileHasThePrefetchThatIsInForce) {
  const auto prefetch = [&](const Words& arguments) {
    reset();
    parse(arguments);
    const train::ExtraConfig config = zero.config(data_parallel);
    const auto found =
        std::ranges::find(config, "prefetch", &train::ExtraConfig::value_type::first);
    return std::get<std::size_t>(found->second);
  };
  EXPECT_EQ(prefetch({"--zero", "3"}), 1U);
  EXPECT_EQ(prefetch({"--zero", "3", "--prefetch", "2"}), 2U);
  EXPECT_EQ(prefetch({"--zero", "3", "--overlap", "none"}), 0U);
}

}  // namespace
}  // namespace ultra::zero

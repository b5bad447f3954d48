#include "chapters/04_zero/options/zero_options.hpp"

#include <variant>

#include "common/comm/collectives/schedule.hpp"
#include "tests/chapters/04_zero/zero_flags.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using ultra::test::Words;

using ZeroOptionsTest = test::ZeroFlags;

TEST_F(ZeroOptionsTest, StagesAreNumbers) {
  for (const ZeroStage stage : kZeroStages) {
    expect_valid("--zero " + std::to_string(number_of(stage)));
    EXPECT_EQ(zero.stage, stage);
    EXPECT_EQ(zero.shards(), stage != ZeroStage::kNone);
  }
  for (const std::string bad : {"4", "-1", "three"}) {
    expect_refused({{"--zero " + bad, {"--zero is '" + bad + "'", "0, 1, 2 or 3"}}});
  }
  expect_refused({{"--zero ''", {"--zero is empty"}}});
}

TEST_F(ZeroOptionsTest, BatchesHaveOneMatrixAtLeast) {
  EXPECT_FALSE(zero.muon_batch);
  expect_valid("--zero 1 --muon-batch 2");
  EXPECT_EQ(zero.muon_batch, 2U);
  expect_refused({{"--muon-batch 0", {"--muon-batch"}}});
}

TEST_F(ZeroOptionsTest, ReshardIsYesOrNo) {
  expect_valid("--zero 3 --reshard-after-forward no");
  EXPECT_EQ(zero.reshard, Reshard::kAfterBackward);
  expect_valid("--zero 3 --reshard-after-forward yes");
  EXPECT_EQ(zero.reshard, Reshard::kAfterForward);
  expect_refused(
      {{"--reshard-after-forward maybe", {"--reshard-after-forward is 'maybe'", "yes or no"}}});
}

TEST_F(ZeroOptionsTest, ShardsAreFlatOrRowsAndRowsAreOfStage3) {
  EXPECT_EQ(settings("--zero 3").cut, ShardCut::kFlat);
  expect_valid("--zero 3 --shards rows --hybrid-shard 2 --reshard-after-forward no");
  EXPECT_EQ(settings("--zero 3 --shards rows").cut, ShardCut::kRows);
  expect_refused({{"--zero 3 --shards columns", {"--shards is 'columns'", "flat or rows"}},
                  {"--shards rows", {"--shards has no meaning without --zero 1, 2 or 3"}},
                  {"--zero 3 --shards rows --zero++ weights-int8",
                   {"--shards rows does not go together with --zero++", "Leave out one"}}});
  for (const std::string stage : {"--zero 1", "--zero 2"}) {
    expect_valid(stage + " --shards flat");
    expect_refused({{stage + " --shards rows",
                     {"--shards rows does not go together with " + stage, "Use --zero 3"}}});
  }
}

TEST_F(ZeroOptionsTest, RowsMayTravelInBf16WhereThatIsNarrower) {
  EXPECT_FALSE(settings("--zero 3 --shards rows").gather);
  EXPECT_EQ(settings("--zero 3 --shards rows --gather-dtype bf16").gather, DType::kBF16);
  EXPECT_NO_THROW(zero.expect_narrower(DType::kF32));
  test::expect_parts(test::message_of<ConfigError>([&] { zero.expect_narrower(DType::kBF16); }),
                     {"--gather-dtype bf16 has no meaning for weights of bf16", "Leave out"});
  const std::string none = "--gather-dtype has no meaning without --zero 3 --shards rows";
  expect_refused({{"--zero 3 --shards rows --gather-dtype f16", {"'f16', expected bf16"}},
                  {"--zero 3 --gather-dtype bf16", {none}},
                  {"--zero 2 --gather-dtype bf16", {none}}});
}

TEST_F(ZeroOptionsTest, CountsAreWholeNumbers) {
  const auto read = [&](const Words& words) { parse(words); };
  for (const std::string flag : {"--prefetch", "--hybrid-shard"}) {
    for (const char* bad : {" -1", " 1.5", " many"}) {
      test::expect_refused<ConfigError>(read, {{flag + bad, {flag, "whole number"}}});
    }
  }
}

TEST_F(ZeroOptionsTest, FlagsThatNeedAStageAreRefusedWithoutIt) {
  const std::string none = " has no meaning without --zero 3";
  for (const std::string stage : {"--zero 0 ", "--zero 1 ", "--zero 2 "}) {
    expect_refused({{stage + "--prefetch 1", {"--prefetch" + none}},
                    {stage + "--reshard-after-forward yes", {"--reshard-after-forward" + none}},
                    {stage + "--reshard-after-forward no", {"--reshard-after-forward" + none}}});
  }
  for (const std::string stage : {"--zero 1", "--zero 2", "--zero 3"}) {
    expect_valid(stage + " --hybrid-shard 2");
    EXPECT_NO_THROW(zero.expect_nodes_of(4));
  }
  expect_valid("--hybrid-shard 2");  // an estimate is about all stages
  expect_nodes_refused(4, {"--hybrid-shard has no meaning", "without --zero 1, 2 or 3"});
}

TEST_F(ZeroOptionsTest, CompressionDoesNotGoTogetherWithShards) {
  for (const std::string stage : {"--zero 1", "--zero 2", "--zero 3"}) {
    const std::string with = " does not go together with " + stage;
    expect_refused({{stage + " --compress int8", {"--compress" + with, "owner of a shard"}}});
    expect_valid(stage + " --compress none");
  }
  expect_valid("--zero 0 --compress int8");
}

TEST_F(ZeroOptionsTest, Stage3HasUnitsInsteadOfBucketsAndReplicas) {
  const std::string with = " does not go together with --zero 3";
  expect_refused(
      {{"--zero 3 --check-replicas 1", {"--check-replicas" + with, "no replicas of the weights"}},
       {"--zero 3 --overlap per-parameter",
        {"--overlap per-parameter" + with, "whole blocks travel"}},
       {"--zero 3 --bucket-mb 0.25", {"--bucket-mb" + with, "whatever their size"}},
       {"--zero 3 --overlap none --prefetch 1", {"--prefetch" + with, "--overlap none waits"}}});
  expect_valid("--zero 3 --overlap none --prefetch 0");
  for (const std::string stage : {"--zero 1", "--zero 2"}) {
    expect_valid(stage + " --check-replicas 1 --overlap per-parameter");
    expect_valid(stage + " --bucket-mb 1");
  }
}

TEST_F(ZeroOptionsTest, AnUnknownReduceScatterIsRefusedWithTheNamesOfAll) {
  const Words parts = {"'chain'", "pairwise"};
  expect_refused({{"--zero 0 --reduce-scatter chain", parts},
                  {"--zero 1 --reduce-scatter chain", parts},
                  {"--zero 3 --reduce-scatter chain", parts}});
  expect_valid("--zero 2 --reduce-scatter ring");
}

TEST_F(ZeroOptionsTest, NodesMakeUpTheReplicas) {
  expect_valid("--zero 3 --hybrid-shard 4");
  EXPECT_NO_THROW(zero.expect_nodes_of(8));
  expect_nodes_refused(6, {"--hybrid-shard 4", "6 ranks are not whole nodes of 4"});
  expect_refused({{"--zero 3 --hybrid-shard 0", {"--hybrid-shard is 0"}},
                  {"--zero 3 --hybrid-shard 3000000000", {"from 1 to 1000000"}}});
  expect_valid("--zero 3");
  EXPECT_NO_THROW(zero.expect_nodes_of(7));
}

TEST_F(ZeroOptionsTest, SettingsFollowTheFlagsOfBothChapters) {
  ZeroSettings found = settings("--zero 1 --bucket-mb 0.5");
  EXPECT_EQ(found.stage, ZeroStage::kOptimizer);
  EXPECT_EQ(found.bucket_capacity, 125'000U);
  EXPECT_EQ(found.overlap, Overlap::kOn);
  EXPECT_EQ(settings("--zero 1 --bucket-mb 0.5", DType::kF64).bucket_capacity, 62'500U);
  EXPECT_EQ(settings("--zero 2 --overlap per-parameter").bucket_capacity, 0U);
  EXPECT_EQ(settings("--zero 2 --overlap none").overlap, Overlap::kOff);

  found = settings("--zero 3");
  EXPECT_EQ(found.prefetch, 1U);
  EXPECT_EQ(found.reshard, Reshard::kAfterForward);
  EXPECT_EQ(settings("--zero 3 --overlap none").prefetch, 0U);
  EXPECT_EQ(settings("--zero 3 --prefetch 2").prefetch, 2U);
  EXPECT_EQ(settings("--zero 3 --reshard-after-forward no").reshard, Reshard::kAfterBackward);
}

/// By default sums of both operations are in the order of the ranks: an element of an array of two
/// has the same steps whichever rank owns it.
TEST_F(ZeroOptionsTest, AlgorithmsAreThoseThatTheFlagsName) {
  const auto steps = [&](const std::string& line) {
    parse(line);
    return zero.algorithms(data_parallel)
        ->reduce_scatter(comm::Group::all(1, 3), comm::Chunks::even({0, 9}, 3))
        .lanes;
  };
  EXPECT_EQ(steps(""), steps("--reduce-scatter pairwise"));
  EXPECT_NE(steps(""), steps("--reduce-scatter ring"));
  EXPECT_EQ(steps("--all-reduce ring"), steps(""));
}

TEST_F(ZeroOptionsTest, TheMetricsFileHasThePrefetchThatIsInForce) {
  const auto prefetch = [&](const std::string& line) {
    parse(line);
    const train::ExtraConfig config = zero.config(data_parallel);
    const auto found =
        std::ranges::find(config, "prefetch", &train::ExtraConfig::value_type::first);
    return std::get<std::size_t>(found->second);
  };
  EXPECT_EQ(prefetch("--zero 3"), 1U);
  EXPECT_EQ(prefetch("--zero 3 --prefetch 2"), 2U);
  EXPECT_EQ(prefetch("--zero 3 --overlap none"), 0U);
}

}  // namespace
}  // namespace ultra::zero

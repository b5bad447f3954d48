// The executable 04_zero, started as a user starts it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/chapters/02_collectives/program_fixture.hpp"

namespace ultra::zero {
namespace {

using collectives::test::Changes;
using collectives::test::events_of;
using collectives::test::expect_success;
using collectives::test::ProcessResult;
using collectives::test::ProgramTest;
using collectives::test::Words;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kProgram = "04_zero";

Words joined(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

class ZeroProgram : public ProgramTest {
 protected:
  ZeroProgram() : ProgramTest(kProgram) {}

  /// The losses of chapter 03's executable.
  [[nodiscard]] json losses_of_chapter_03(Changes changes, const Words& flags) const {
    const std::string path = folder.path("chapter_03.jsonl");
    changes["--metrics"] = path;
    expect_success(
        ultra::test::run_program("03_data_parallel", collectives::test::flags(changes, flags)));
    return events_of(path).back().at("losses");
  }

  void expect_near(const json& losses, const json& expected, double tolerance) const {
    ASSERT_EQ(losses.size(), expected.size());
    for (std::size_t i = 0; i < losses.size(); ++i) {
      const double loss = expected[i];
      EXPECT_NEAR(losses[i].get<double>(), loss, tolerance * loss);
    }
  }

  /// The highest bytes that a rank needed.
  [[nodiscard]] static std::size_t highest_peak(const json& summary) {
    std::size_t highest = 0;
    for (const json& rank : summary.at("ranks")) {
      highest = std::max(highest, rank.at("peak_bytes").at("total").get<std::size_t>());
    }
    return highest;
  }
};
using BadZeroRun = ZeroProgram;

/// Shares of 3, 3 and 2 sequences on 3 ranks, one micro-batch each.
const Changes kFiveSteps = {{"--steps", "5"}, {"--global-batch", "8"}, {"--micro-batch", "4"}};

// Losses ------------------------------------------------------------------------------------------

TEST_F(ZeroProgram, EveryStageHasTheLossesOfChapter03) {
  const json expected = losses_of_chapter_03(kFiveSteps, {"--dp", "3"});
  for (const Words& flags :
       {Words{"--zero", "0"}, Words{"--zero", "1"}, Words{"--zero", "2"}, Words{"--zero", "3"},
        Words{"--zero", "1", "--overlap", "none", "--check-replicas", "2"},
        Words{"--zero", "2", "--overlap", "per-parameter"},
        Words{"--zero", "2", "--bucket-mb", "0.001", "--straggler", "1:1"},
        Words{"--zero", "3", "--prefetch", "3", "--recompute", "full", "--recompute-every", "2"},
        Words{"--zero", "3", "--overlap", "none", "--reshard-after-forward", "no"}}) {
    EXPECT_EQ(summary_of(kFiveSteps, joined({"--dp", "3"}, flags)).at("losses"), expected)
        << "bitwise, " << ::testing::PrintToString(flags);
  }
}

TEST_F(ZeroProgram, WithSeveralMicroBatchesToo) {
  Changes base = kFiveSteps;
  base["--micro-batch"] = "1";
  const json expected = losses_of_chapter_03(base, {"--dp", "2"});
  EXPECT_EQ(summary_of(base, {"--dp", "2", "--zero", "1"}).at("losses"), expected) << "bitwise";
  const json averaging = summary_of(base, {"--dp", "2", "--zero", "2"}).at("losses");
  EXPECT_EQ(summary_of(base, {"--dp", "2", "--zero", "3"}).at("losses"), averaging) << "bitwise";
  expect_near(averaging, expected, 1e-5);  // sums in another order
}

TEST_F(ZeroProgram, NodesAndOtherAlgorithmsHaveTheLossesOfOneRank) {
  Changes base = kFiveSteps;
  base["--dtype"] = "f64";
  const json expected = summary_of(base).at("losses");
  for (const Words& flags :
       {Words{"--zero", "1", "--dp", "4", "--hybrid-shard", "2"},
        Words{"--zero", "3", "--dp", "4", "--hybrid-shard", "2"},
        Words{"--zero", "2", "--dp", "3", "--reduce-scatter", "ring", "--all-reduce", "ring"},
        Words{"--zero", "3", "--ranks", "3", "--collectives", "native"}}) {
    expect_near(summary_of(base, flags).at("losses"), expected, 1e-10);
  }
}

/// Five steps of a model that small: quantisation shows behind the first digits only.
TEST_F(ZeroProgram, ZeroPlusPlusHasNearlyTheLossesOfZero3) {
  const Words zero3 = {"--dp", "4", "--zero", "3"};
  const json expected = summary_of(kFiveSteps, zero3).at("losses");
  EXPECT_EQ(summary_of(kFiveSteps, joined(zero3, {"--zero++", "hierarchical", "--node-size", "2"}))
                .at("losses"),
            expected)
      << "bitwise: nothing is quantised";
  for (const Words& flags :
       {Words{"--zero++", "weights-int8"}, Words{"--zero++", "gradients-int4"},
        Words{"--zero++", "weights-int8,hierarchical,gradients-int4", "--node-size", "2"}}) {
    const json summary = summary_of(kFiveSteps, joined(zero3, flags));
    expect_near(summary.at("losses"), expected, 0.01);
    EXPECT_NE(summary.at("losses"), expected) << "something was quantised";
    EXPECT_EQ(summary.at("config").at("zero_plus_plus"), flags[1]);
  }
}

TEST_F(ZeroProgram, TheSummaryHoldsItsFlags) {
  const json config = summary_of({}, {"--dp", "2", "--zero", "3", "--prefetch", "2",
                                      "--reshard-after-forward", "no", "--hybrid-shard", "1"})
                          .at("config");
  EXPECT_EQ(config.at("zero"), 3);
  EXPECT_EQ(config.at("dp"), 2);
  EXPECT_EQ(config.at("prefetch"), 2);
  EXPECT_EQ(config.at("reshard_after_forward"), "no");
  EXPECT_EQ(config.at("hybrid_shard"), 1);
  EXPECT_EQ(config.at("reduce_scatter"), "pairwise");
  EXPECT_EQ(summary_of({}, {"--dp", "2"}).at("config").at("zero"), 0);
}

// Memory ------------------------------------------------------------------------------------------

/// Without a progress thread, which may keep the memory of an operation that has ended a moment longer.
TEST_F(ZeroProgram, ExplainsItsMemoryAndItsCommunication) {
  for (const Words& flags :
       {Words{"--dp", "1", "--zero", "1"}, Words{"--dp", "3", "--zero", "1"},
        Words{"--dp", "3", "--zero", "2"},
        Words{"--dp", "3", "--zero", "3", "--recompute", "full", "--recompute-every", "2"},
        Words{"--dp", "4", "--zero", "3", "--hybrid-shard", "2"},
        Words{"--dp", "3", "--zero", "3", "--zero++", "weights-int8,gradients-int8"},
        Words{"--dp", "4", "--zero", "3", "--zero++", "weights-int8,hierarchical,gradients-int4",
              "--node-size", "2"}}) {
    const ProcessResult result =
        run({{"--steps", "2"}, {"--global-batch", "10"}, {"--micro-batch", "1"}},
            joined({"--progress", "on-call"}, flags));
    expect_success(result);
    EXPECT_THAT(result.out,
                AllOf(HasSubstr("Where the memory of rank 0 went (ZeRO-"), HasSubstr("exact"),
                      HasSubstr("sent in a step"), HasSubstr("exposed s"), Not(HasSubstr("ABOVE")),
                      Not(ContainsRegex("[+-][0-9.]+%"))))
        << ::testing::PrintToString(flags);
  }
  const ProcessResult whole = run({}, {"--dp", "2", "--zero", "0"});
  EXPECT_THAT(whole.out, HasSubstr("Where the memory went"));
}

/// A model that no rank can hold trains in shards, on as many ranks with as much memory each.
TEST_F(ZeroProgram, AModelThatDoesNotFitTrainsInShards) {
  const Changes large = {{"--layers", "6"}, {"--hidden", "48"}, {"--ffn", "96"},
                         {"--seq", "8"},    {"--steps", "2"},   {"--micro-batch", "1"}};
  const Words ranks = {"--dp", "4"};
  const json whole = summary_of(large, joined(ranks, {"--zero", "0"}));
  const json sharded = summary_of(large, joined(ranks, {"--zero", "3"}));
  std::filesystem::remove(folder.path("metrics.jsonl"));
  ASSERT_LT(highest_peak(sharded) * 3 / 2, highest_peak(whole)) << "a wide margin";
  const Words memory = {"--device-memory",
                        std::to_string((highest_peak(sharded) + highest_peak(whole)) / 2) + "B"};

  const ProcessResult died = failed(large, 2,
                                    {"out of device memory", "parameters ", "gradients ",
                                     "optimizer ", "Split the model over more ranks"},
                                    joined(joined(ranks, {"--zero", "0"}), memory));
  EXPECT_THAT(died.out, Not(HasSubstr("Where the memory")));
  EXPECT_EQ(summary_of(large, joined(joined(ranks, {"--zero", "3"}), memory)).at("losses"),
            sharded.at("losses"));
}

TEST_F(ZeroProgram, TheTimelineNamesWhatTravels) {
  const std::string trace = folder.path("trace.json");
  expect_success(run({{"--trace", trace}}, {"--dp", "2", "--zero", "3"}));
  EXPECT_THAT(ultra::test::read_file(trace),
              AllOf(HasSubstr("gather block 1"), HasSubstr("reduce head"),
                    HasSubstr("gather embedding"), HasSubstr("gradient norm")));
}

// Other answers -----------------------------------------------------------------------------------

TEST_F(ZeroProgram, PrintsTheRanksThatItsFlagsNeed) {
  EXPECT_EQ(run({}, {"--zero", "3", "--print-ranks"}).out, "1\n");
  EXPECT_EQ(run({}, {"--dp", "4", "--zero", "3", "--hybrid-shard", "2", "--print-ranks"}).out,
            "4\n");
}

TEST_F(ZeroProgram, EstimatesEveryStage) {
  const ProcessResult result = run_words({"--estimate", "llama-7b", "--dp", "64"});
  expect_success(result);
  EXPECT_THAT(result.out, AllOf(HasSubstr("6,738,415,616"), HasSubstr("N = 64 ranks"),
                                HasSubstr("ZeRO-1"), HasSubstr("ZeRO-2"), HasSubstr("ZeRO-3")));
  EXPECT_THAT(run_words({"--estimate", "7.5B", "--dp", "64"}).out, HasSubstr("7,500,000,000"));
  const json stages = json::parse(run_words({"--estimate", "llama-7b", "--dp", "4", "--json"}).out);
  EXPECT_EQ(stages.at("ranks"), 4);
  EXPECT_EQ(stages.at("stages").size(), 4U);
}

/// An estimate is about all stages: nodes have a meaning without --zero.
TEST_F(ZeroProgram, EstimatesNodes) {
  const ProcessResult result =
      run_words({"--estimate", "llama-7b", "--dp", "16", "--hybrid-shard", "8"});
  expect_success(result);
  EXPECT_THAT(result.out, HasSubstr("S = 8 ranks of a node"));
}

TEST_F(ZeroProgram, KeepsWhatEarlierChaptersCan) {
  EXPECT_THAT(run_words({"--simulate", "nodes=2,gpus=4", "--simulate-sizes", "1MB"}).out,
              HasSubstr("ring"));
  EXPECT_THAT(run_words({"--op", "reduce_scatter", "--ranks", "2", "--max-bytes", "4KB",
                         "--iterations", "1"})
                  .out,
              HasSubstr("pairwise"));
  EXPECT_EQ(json::parse(run_words({"--scale", "1,8", "--scale-json"}).out).at("points").size(), 2U);
  expect_success(run({}, {"--dp", "2", "--sync", "parameter-server"}));
  expect_success(run({}, {"--dp", "2", "--compress", "int8"}));
  EXPECT_THAT(run_words({"--help"}).out, AllOf(HasSubstr("--zero"), HasSubstr("--recompute"),
                                               HasSubstr("--servers"), HasSubstr("--link")));
}

// Refused -----------------------------------------------------------------------------------------

TEST_F(BadZeroRun, ValuesThatFlagsDoNotHave) {
  refused({}, {"--zero is '4'", "0, 1, 2 or 3"}, {"--zero", "4"});
  refused({}, {"--reshard-after-forward is 'some'", "yes or no"},
          {"--zero", "3", "--reshard-after-forward", "some"});
  refused({}, {"--prefetch", "whole number"}, {"--zero", "3", "--prefetch", "-1"});
  refused({}, {"--hybrid-shard", "whole number"}, {"--zero", "3", "--hybrid-shard", "1.5"});
  refused({}, {"'chain'", "pairwise"}, {"--zero", "1", "--reduce-scatter", "chain"});
  refused({}, {"'much' is not a size in bytes"}, {"--zero", "3", "--device-memory", "much"});
}

TEST_F(BadZeroRun, RanksThatDoNotFit) {
  refused({}, {"--hybrid-shard 2", "3 ranks are not whole nodes of 2"},
          {"--dp", "3", "--zero", "3", "--hybrid-shard", "2"});
  refused({}, {"--hybrid-shard 0"}, {"--dp", "2", "--zero", "3", "--hybrid-shard", "0"});
  refused({}, {"--hybrid-shard 5", "64 ranks"},
          {"--estimate", "llama-7b", "--dp", "64", "--hybrid-shard", "5"});
  refused({}, {"5 replicas", "--global-batch of 4"}, {"--dp", "5", "--zero", "2"});
  refused({}, {"--dp 2", "--ranks is 3"}, {"--dp", "2", "--ranks", "3", "--zero", "1"});
}

TEST_F(BadZeroRun, FlagsWithoutTheStageThatTheyNeed) {
  for (const char* stage : {"0", "1", "2"}) {
    refused({}, {"--prefetch has no meaning without --zero 3"},
            {"--zero", stage, "--prefetch", "1"});
    refused({}, {"--reshard-after-forward has no meaning without --zero 3"},
            {"--zero", stage, "--reshard-after-forward", "no"});
  }
  refused({}, {"--hybrid-shard has no meaning without --zero 1, 2 or 3"},
          {"--dp", "2", "--hybrid-shard", "2"});
}

TEST_F(BadZeroRun, FlagsThatDoNotGoTogether) {
  for (const char* stage : {"1", "2", "3"}) {
    refused({}, {"--sync parameter-server does not go together with --zero", "shards of their own"},
            {"--zero", stage, "--dp", "2", "--sync", "parameter-server"});
    refused({}, {"--compress does not go together with --zero", "owner of a shard"},
            {"--zero", stage, "--compress", "int8"});
  }
  for (const Words& flags : {Words{"--check-replicas", "1"}, Words{"--overlap", "per-parameter"},
                             Words{"--bucket-mb", "1"}}) {
    refused({}, {flags.front(), "does not go together with --zero 3"},
            joined({"--zero", "3"}, flags));
  }
  refused({}, {"--prefetch does not go together with --zero 3", "--overlap none waits"},
          {"--zero", "3", "--overlap", "none", "--prefetch", "1"});
}

TEST_F(BadZeroRun, ZeroPlusPlusThatCannotWork) {
  refused({}, {"--zero++ is 'int8'", "weights-int8, hierarchical, gradients-int8 or"},
          {"--zero", "3", "--zero++", "int8"});
  refused({}, {"--zero++ names hierarchical twice"},
          {"--zero", "3", "--zero++", "hierarchical,hierarchical"});
  refused({}, {"--zero++ weights-int8 needs parameters in shards", "Add --zero 3"},
          {"--zero", "2", "--zero++", "weights-int8"});
  refused({}, {"--zero++ hierarchical needs nodes", "--node-size"},
          {"--zero", "3", "--zero++", "hierarchical"});
  refused({}, {"--node-size 2 has no meaning"}, {"--zero", "3", "--node-size", "2"});
  refused({}, {"--node-size 2", "3 ranks are not whole nodes of 2"},
          {"--dp", "3", "--zero", "3", "--zero++", "hierarchical", "--node-size", "2"});
  refused({}, {"--hybrid-shard 2 does not go together with --zero++"},
          {"--dp", "4", "--zero", "3", "--zero++", "weights-int8", "--hybrid-shard", "2"});
}

TEST_F(BadZeroRun, TrainingThatDivergesEndsAllRanks) {
  const Changes diverges = {{"--steps", "9"}, {"--lr", "1e30"}, {"--clip", "0"}};
  for (const char* stage : {"1", "2", "3"}) {
    failed(diverges, 2, {"at step", "lower --lr"}, {"--dp", "2", "--zero", stage});
  }
  failed(diverges, 2, {"at step", "lower --lr"},
         {"--dp", "2", "--zero", "3", "--zero++", "weights-int8,gradients-int4"});
}

}  // namespace
}  // namespace ultra::zero

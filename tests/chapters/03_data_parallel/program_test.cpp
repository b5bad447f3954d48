// The executable 03_data_parallel, started as a user starts it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/chapters/02_collectives/program_fixture.hpp"

namespace ultra::data_parallel {
namespace {

using collectives::test::Changes;
using collectives::test::expect_success;
using collectives::test::ProcessResult;
using collectives::test::ProgramTest;
using collectives::test::Words;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kProgram = "03_data_parallel";

class DataParallelProgram : public ProgramTest {
 protected:
  DataParallelProgram() : ProgramTest(kProgram) {}

  void expect_losses_of_one_rank(const Changes& base, const Words& flags, double tolerance) const {
    const json expected = summary_of(base).at("losses");
    const json losses = summary_of(base, flags).at("losses");
    ASSERT_EQ(losses.size(), expected.size());
    for (std::size_t i = 0; i < losses.size(); ++i) {
      const double loss = expected[i];
      EXPECT_NEAR(losses[i].get<double>(), loss, tolerance * loss)
          << ::testing::PrintToString(flags);
    }
  }
};
using BadDataParallelRun = DataParallelProgram;

const Changes kFiveSteps = {{"--steps", "5"}, {"--global-batch", "6"}, {"--dtype", "f64"}};

TEST_F(DataParallelProgram, EveryWayToAverageHasTheLossesOfOneRank) {
  for (const Words& flags :
       {Words{"--dp", "2"}, Words{"--dp", "4"}, Words{"--dp", "3", "--overlap", "none"},
        Words{"--dp", "3", "--overlap", "per-parameter"},
        Words{"--dp", "3", "--bucket-mb", "0.01", "--check-replicas", "2"},
        Words{"--dp", "2", "--all-reduce", "ring"},
        Words{"--ranks", "3", "--collectives", "native"}}) {
    expect_losses_of_one_rank(kFiveSteps, flags, 1e-10);
  }
}

TEST_F(DataParallelProgram, ParameterServersHaveTheLossesOfOneRank) {
  const Words base = {"--sync", "parameter-server", "--dp", "2"};
  for (const Words& more : {Words{}, Words{"--servers", "2", "--priority", "wait-free"},
                            Words{"--priority", "priority", "--slice-kb", "1"}}) {
    Words flags = base;
    flags.insert(flags.end(), more.begin(), more.end());
    expect_losses_of_one_rank(kFiveSteps, flags, 1e-10);
  }
}

TEST_F(DataParallelProgram, AsynchronousTrainingComesClose) {
  expect_losses_of_one_rank(kFiveSteps,
                            {"--sync", "parameter-server", "--dp", "2", "--async", "--staleness",
                             "1", "--straggler", "1:5"},
                            0.05);
}

TEST_F(DataParallelProgram, CompressedGradientsComeClose) {
  for (const char* compression : {"topk:0.5", "int8", "onebit", "powersgd:2"}) {
    expect_losses_of_one_rank(kFiveSteps, {"--dp", "2", "--compress", compression}, 0.05);
  }
  expect_losses_of_one_rank(kFiveSteps,
                            {"--dp", "2", "--compress", "onebit", "--compress-warmup", "5"}, 1e-10);
}

TEST_F(DataParallelProgram, TheSummaryHoldsItsFlags) {
  const json config =
      summary_of({}, {"--dp", "2", "--overlap", "per-parameter", "--check-replicas", "1"})
          .at("config");
  EXPECT_EQ(config.at("dp"), 2);
  EXPECT_EQ(config.at("ranks"), 2);
  EXPECT_EQ(config.at("overlap"), "per-parameter");
  EXPECT_EQ(config.at("all_reduce"), "pairwise");
  EXPECT_EQ(config.at("compress"), "none");
  const json served =
      summary_of({}, {"--dp", "2", "--sync", "parameter-server", "--servers", "2"}).at("config");
  EXPECT_EQ(served.at("dp"), 2);
  EXPECT_EQ(served.at("ranks"), 4);
  EXPECT_EQ(served.at("sync"), "parameter-server");
}

TEST_F(DataParallelProgram, ExplainsItsMemoryAndItsCommunication) {
  const ProcessResult result = run({}, {"--dp", "2"});
  expect_success(result);
  EXPECT_THAT(result.out, AllOf(HasSubstr("Where the memory went"), HasSubstr("exposed s")));
}

TEST_F(DataParallelProgram, PrintsTheRanksThatItsFlagsNeed) {
  EXPECT_EQ(run({}, {"--print-ranks"}).out, "1\n");
  EXPECT_EQ(run({}, {"--dp", "3", "--print-ranks"}).out, "3\n");
  EXPECT_EQ(
      run({}, {"--dp", "3", "--sync", "parameter-server", "--servers", "2", "--print-ranks"}).out,
      "5\n");
}

TEST_F(DataParallelProgram, PredictsScalingInsteadOfTraining) {
  const ProcessResult result = run_words({"--scale", "1,8,64", "--scale-json"});
  expect_success(result);
  EXPECT_EQ(json::parse(result.out).at("points").size(), 3U);
}

TEST_F(DataParallelProgram, KeepsWhatEarlierChaptersCan) {
  EXPECT_THAT(run({}, {"--estimate", "llama-7b"}).out, HasSubstr("6,738,415,616"));
  EXPECT_THAT(run_words({"--simulate", "nodes=2,gpus=4", "--simulate-sizes", "1MB"}).out,
              HasSubstr("ring"));
  EXPECT_THAT(
      run_words({"--op", "all_reduce", "--ranks", "2", "--max-bytes", "4KB", "--iterations", "1"})
          .out,
      HasSubstr("pairwise"));
  EXPECT_THAT(run_words({"--help"}).out, AllOf(HasSubstr("--recompute"), HasSubstr("--link")));
}

TEST_F(BadDataParallelRun, RanksThatDoNotFit) {
  refused({}, {"--dp is 0", "at least 1"}, {"--dp", "0"});
  refused({}, {"--dp 2", "2 ranks", "--ranks is 3"}, {"--dp", "2", "--ranks", "3"});
  refused({}, {"5 replicas", "--global-batch of 4", "at most 4"}, {"--dp", "5"});
  refused({}, {"--servers 1", "--dp N"}, {"--sync", "parameter-server", "--ranks", "1"});
  refused({}, {"--straggler", "no replica 2"}, {"--dp", "2", "--straggler", "2:5"});
}

TEST_F(BadDataParallelRun, FlagsThatCannotWork) {
  refused({}, {"--overlap is 'some'", "none, per-parameter or bucketed"}, {"--overlap", "some"});
  refused({}, {"--bucket-mb is 0", "above 0"}, {"--bucket-mb", "0"});
  refused({}, {"--bucket-mb is nan"}, {"--bucket-mb", "nan"});
  refused({}, {"'zip'", "topk:FRACTION"}, {"--compress", "zip"});
  refused({}, {"'chain'", "pairwise"}, {"--all-reduce", "chain"});
  refused({}, {"--check-replicas", "whole number"}, {"--check-replicas", "-1"});
  refused({}, {"--no-error-feedback", "--compress"}, {"--no-error-feedback"});
  refused({}, {"--compress-warmup", "--compress"}, {"--compress-warmup", "3"});
}

TEST_F(BadDataParallelRun, FlagsWithoutTheOneThatTheyNeed) {
  const Words served = {"--dp", "2", "--sync", "parameter-server"};
  for (const Words& all_reduce :
       {Words{"--overlap", "none"}, Words{"--bucket-mb", "1"}, Words{"--compress", "int8"},
        Words{"--all-reduce", "ring"}, Words{"--check-replicas", "1"}}) {
    Words flags = served;
    flags.insert(flags.end(), all_reduce.begin(), all_reduce.end());
    refused({}, {all_reduce.front(), "--sync parameter-server"}, flags);
  }
  for (const Words& server : {Words{"--servers", "2"}, Words{"--async"},
                              Words{"--priority", "wait-free"}, Words{"--staleness", "1"}}) {
    refused({}, {server.front()}, server);
  }
}

TEST_F(BadDataParallelRun, TrainingThatDivergesEndsAllRanks) {
  const Changes diverges = {{"--steps", "9"}, {"--lr", "1e30"}, {"--clip", "0"}};
  failed(diverges, 2, {"at step", "lower --lr"}, {"--dp", "2"});
  failed(diverges, 2, {"at step", "lower --lr"}, {"--dp", "2", "--sync", "parameter-server"});
}

}  // namespace
}  // namespace ultra::data_parallel

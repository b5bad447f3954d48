// The executable 02_collectives, started as a user starts it: what works, and what ends all ranks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "tests/chapters/02_collectives/program_fixture.hpp"

namespace ultra::collectives {
namespace {

using nlohmann::json;
using test::Changes;
using test::expect_success;
using test::ProcessResult;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Program : public test::ProgramTest {
 protected:
  Program() : ProgramTest(test::kProgram) {}
};

TEST_F(Program, TrainsOnOneRankWithoutFlagsOfItsOwn) {
  const ProcessResult result = run();
  expect_success(result);
  EXPECT_THAT(result.out, AllOf(HasSubstr("step     1/1"), HasSubstr("Where the memory went")));
}

TEST_F(Program, RanksAndTheirCollectivesChangeNoLoss) {
  const Changes base = {{"--steps", "5"}, {"--global-batch", "12"}, {"--dtype", "f64"}};
  const json expected = summary_of(base).at("losses");
  ASSERT_EQ(expected.size(), 5U);
  for (const Changes& more : {Changes{{"--ranks", "2"}}, Changes{{"--ranks", "3"}},
                              Changes{{"--ranks", "3"}, {"--collectives", "native"}},
                              Changes{{"--ranks", "2"}, {"--progress", "on-call"}},
                              Changes{{"--ranks", "2"}, {"--check-collectives", "off"}},
                              Changes{{"--ranks", "2"}, {"--link", "latency-us=100,gbps=10"}}}) {
    Changes changes = base;
    changes.insert(more.begin(), more.end());
    const json losses = summary_of(changes).at("losses");
    ASSERT_EQ(losses.size(), 5U);
    for (std::size_t i = 0; i < 5; ++i) {
      const double loss = expected[i];
      EXPECT_NEAR(losses[i].get<double>(), loss, 1e-10 * loss);
    }
  }
}

TEST_F(Program, MetricsAndTraceHoldAllRanks) {
  const std::string trace_path = folder.path("trace.json");
  const json summary = summary_of(
      {{"--ranks", "2"}, {"--steps", "3"}, {"--trace", trace_path}, {"--timeout", "30"}});
  EXPECT_THAT(folder.names(), ElementsAre("metrics.jsonl", "trace.json"));
  EXPECT_EQ(summary.at("config").at("ranks"), 2);
  EXPECT_EQ(summary.at("config").at("collectives"), "ours");
  EXPECT_EQ(summary.at("config").at("timeout"), 30.0);
  EXPECT_EQ(summary.at("config").at("recompute"), "none") << "chapter 01's flags are there too";
  ASSERT_EQ(summary.at("ranks").size(), 2U);
  EXPECT_GT(summary.at("ranks")[1].at("sent_bytes").at("all_reduce"), 0);
  std::set<int> ranks;
  const json trace = json::parse(ultra::test::read_file(trace_path));
  for (const json& event : trace.at("traceEvents")) ranks.insert(event.at("pid").get<int>());
  EXPECT_EQ(ranks, (std::set<int>{0, 1}));
}

TEST_F(Program, PrintsTheRanksThatItsFlagsNeed) {
  const ProcessResult one = run({}, {"--print-ranks"});
  expect_success(one);
  EXPECT_EQ(one.out, "1\n");
  EXPECT_EQ(run({{"--global-batch", "6"}, {"--ranks", "3"}}, {"--print-ranks"}).out, "3\n");
}

TEST_F(Program, HelpListsTheFlagsOfBothChapters) {
  const ProcessResult result = run_words({"--help"});
  expect_success(result);
  for (const char* flag : {"--layers", "--recompute", "--estimate", "--ranks", "--collectives",
                           "--timeout", "--link", "--progress", "--check-collectives"}) {
    EXPECT_THAT(result.out, HasSubstr(flag));
  }
}

TEST_F(Program, StillEstimates) {
  const ProcessResult result = run({}, {"--estimate", "llama-7b"});
  expect_success(result);
  EXPECT_THAT(result.out, HasSubstr("6,738,415,616"));
}

using BadRun = Program;

TEST_F(BadRun, RankCountsThatDoNotDivide) {
  refused({{"--ranks", "3"}}, {"4 % (3 * 2) = 4", "multiple of 6"});
  refused({{"--ranks", "4"}}, {"4 % (4 * 2) = 4"});
}

TEST_F(BadRun, FlagsThatCannotWork) {
  refused({{"--ranks", "0"}}, {"--ranks is 0", "at least 1"});
  refused({{"--ranks", "-2"}}, {"--ranks", "whole number"});
  refused({{"--ranks", "1000"}}, {"--ranks is 1000", "mpirun"});
  refused({{"--timeout", "0"}}, {"--timeout is 0"});
  refused({{"--collectives", "theirs"}}, {"'theirs'", "ours or native"});
  refused({{"--ranks", "2"}, {"--link", "fast"}}, {"fast", "gbps"});
  refused({{"--ranks", "2"}, {"--link", "gbps=1"}, {"--collectives", "native"}},
          {"--collectives ours"});
}

TEST_F(BadRun, ModesThatExcludeEachOther) {
  refused({{"--op", "all_reduce"}, {"--simulate", "h100"}}, {"--simulate-op", "give one of them"});
  refused({{"--algorithm", "ring"}}, {"--algorithm needs --op"});
  refused({{"--simulate-op", "broadcast"}}, {"needs --simulate MACHINE"});
}

TEST_F(Program, MeasuresACollectiveInsteadOfTraining) {
  const ProcessResult result =
      run_words({"--op", "all_reduce", "--ranks", "3", "--algorithm", "ring,native", "--max-bytes",
                 "16KB", "--iterations", "2", "--op-json"});
  expect_success(result);
  const json report = json::parse(result.out);
  EXPECT_EQ(report.at("ranks"), 3);
  ASSERT_EQ(report.at("rows").size(), 6U);
  for (const json& row : report.at("rows")) EXPECT_EQ(row.at("wrong_elements"), 0);
}

TEST_F(Program, SimulatesACollectiveInsteadOfTraining) {
  const ProcessResult result = run_words({"--simulate", "nodes=2,gpus=4", "--simulate-algorithms",
                                          "ring", "--simulate-sizes", "1MB", "--simulate-json"});
  expect_success(result);
  EXPECT_GT(json::parse(result.out).at("runs").at(0).at("seconds").get<double>(), 0.0);
}

TEST_F(BadRun, FilesThatCannotBeUsed) {
  const Changes two = {{"--ranks", "2"}};
  const auto with = [&](const char* flag, const std::string& path) {
    Changes changes = two;
    changes[flag] = path;
    return changes;
  };
  refused(with("--data", folder.path("missing.txt")), {"missing.txt", "does not exist"});
  refused(with("--metrics", folder.path("no/metrics.jsonl")), {"--metrics", "no/metrics.jsonl"});
  refused(with("--trace", folder.path("no/trace.json")), {"--trace", "no/trace.json"});
}

TEST_F(BadRun, ATimeoutNamesTheOperationAndEndsAllRanks) {
  // Every message takes five seconds, every rank waits for a tenth of one.
  failed({{"--ranks", "2"}, {"--link", "latency-us=5000000,gbps=1"}, {"--timeout", "0.1"}}, 1,
         {"rank"});
}

TEST_F(BadRun, TrainingThatDivergesEndsAllRanks) {
  failed({{"--ranks", "2"}, {"--steps", "9"}, {"--lr", "1e30"}, {"--clip", "0"}}, 2,
         {"at step", "lower --lr"});
}

}  // namespace
}  // namespace ultra::collectives

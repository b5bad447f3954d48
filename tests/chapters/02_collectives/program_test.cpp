// The executable 02_collectives, started as a user starts it: what works, and what ends all ranks.

#include <set>

#include "tests/support/programs/program.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::collectives {
namespace {

using nlohmann::json;
using namespace test;

class Program : public ProgramTest {
 protected:
  Program() : ProgramTest("02_collectives") {}
};

TEST_F(Program, TrainsOnOneRankWithoutFlagsOfItsOwn) {
  expect_parts(output_of(), {"step     1/1", "Where the memory went"});
}

TEST_F(Program, RanksAndTheirCollectivesChangeNoLoss) {
  const std::string base = "--steps 5 --global-batch 12 --dtype f64";
  const json expected = losses_of(base);
  ASSERT_EQ(expected.size(), 5U);
  for (const char* more : {" --ranks 2", " --ranks 3", " --ranks 3 --collectives native",
                           " --ranks 2 --progress on-call", " --ranks 2 --check-collectives off",
                           " --ranks 2 --link latency-us=100,gbps=10"}) {
    expect_near_losses(losses_of(base + more), expected, 1e-10);
  }
}

TEST_F(Program, MetricsAndTraceHoldAllRanks) {
  const std::string trace_path = folder.path("trace.json");
  const json summary = summary_of("--ranks 2 --steps 3 --timeout 30 --trace " + trace_path);
  EXPECT_THAT(folder.names(), ::testing::ElementsAre("metrics.jsonl", "trace.json"));
  EXPECT_EQ(summary.at("config").at("ranks"), 2);
  EXPECT_EQ(summary.at("config").at("collectives"), "ours");
  EXPECT_EQ(summary.at("config").at("timeout"), 30.0);
  EXPECT_EQ(summary.at("config").at("recompute"), "none") << "chapter 01's flags are there too";
  ASSERT_EQ(summary.at("ranks").size(), 2U);
  EXPECT_GT(summary.at("ranks")[1].at("sent_bytes").at("all_reduce"), 0);
  std::set<int> ranks;
  const json trace = json::parse(read_file(trace_path));
  for (const json& event : trace.at("traceEvents")) ranks.insert(event.at("pid").get<int>());
  EXPECT_EQ(ranks, (std::set<int>{0, 1}));
}

TEST_F(Program, PrintsTheRanksThatItsFlagsNeed) {
  expect_ranks({{"", "1"}, {"--global-batch 6 --ranks 3", "3"}});
}

TEST_F(Program, HelpListsTheFlagsOfBothChapters) {
  expect_parts(answer_to("--help"), {"--layers", "--recompute", "--on", "--ranks", "--collectives",
                                     "--timeout", "--link", "--progress", "--check-collectives"});
}

TEST_F(Program, MeasuresACollectiveInsteadOfTraining) {
  const json report =
      json::parse(answer_to("--op all_reduce --ranks 3 --algorithm ring,native --max-bytes 16KB "
                            "--iterations 2 --op-json"));
  EXPECT_EQ(report.at("ranks"), 3);
  ASSERT_EQ(report.at("rows").size(), 6U);
  for (const json& row : report.at("rows")) EXPECT_EQ(row.at("wrong_elements"), 0);
}

TEST_F(Program, SimulatesACollectiveInsteadOfTraining) {
  const json report = json::parse(
      answer_to("--simulate nodes=2,gpus=4 --simulate-algorithms ring --simulate-sizes 1MB "
                "--simulate-json"));
  EXPECT_GT(report.at("runs").at(0).at("seconds").get<double>(), 0.0);
}

using BadRun = Program;

TEST_F(BadRun, FlagsThatCannotWork) {
  refused(
      {{"--ranks 3", {"4 % (3 * 2) = 4", "multiple of 6"}},
       {"--ranks 4", {"4 % (4 * 2) = 4"}},
       {"--ranks -2", {"--ranks", "whole number"}},
       {"--ranks 1000", {"--ranks is 1000", "mpirun"}},
       {"--ranks 2 --link fast", {"--link: ", "'fast'", "gbps"}},
       {"--op all_reduce --simulate h100", {"--op and --simulate each ask", "Give one of them"}},
       {"--algorithm ring", {"--algorithm needs --op"}}});
}

TEST_F(BadRun, FilesThatCannotBeUsed) {
  const std::string missing = "--ranks 2 --data " + folder.path("missing.txt");
  const std::string metrics = "--ranks 2 --metrics " + folder.path("no/metrics.jsonl");
  const std::string trace = "--ranks 2 --trace " + folder.path("no/trace.json");
  refused({{missing, {"missing.txt", "does not exist"}},
           {metrics, {"--metrics", "no/metrics.jsonl"}},
           {trace, {"--trace", "no/trace.json"}}});
}

TEST_F(BadRun, ATimeoutNamesTheOperationAndEndsAllRanks) {
  // Every message takes five seconds, every rank waits for a tenth of one.
  failed("--ranks 2 --link latency-us=5000000,gbps=1 --timeout 0.1", 1, {"rank"});
}

TEST_F(BadRun, TrainingThatDivergesEndsAllRanks) {
  failed("--ranks 2 --steps 9 --lr 1e30 --clip 0", 2, {"at step", "lower --lr"});
}

}  // namespace
}  // namespace ultra::collectives

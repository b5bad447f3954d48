// The executables 03_data_parallel and 03_parameter_server, started as a user starts them.

#include <gtest/gtest.h>

#include <string>

#include "tests/support/programs/program.hpp"

namespace ultra::data_parallel {
namespace {

using nlohmann::json;
using ultra::test::expect_parts;

const std::string kFiveSteps = "--steps 5 --global-batch 6 --dtype f64";

class DataParallelProgram : public test::ProgramTest {
 protected:
  explicit DataParallelProgram(const std::string& program = "03_data_parallel")
      : ProgramTest(program) {}

  void expect_losses_of_one_rank(const std::string& more, double tolerance,
                                 const std::string& training = kFiveSteps) const {
    SCOPED_TRACE(more);
    const std::string alone = folder.path("one_rank.jsonl");
    test::expect_success(
        test::run_program("03_data_parallel", test::flags(training + " --metrics " + alone)));
    test::expect_near_losses(losses_of(training + more), test::events_of(alone).back().at("losses"),
                             tolerance);
  }
};
using BadDataParallelRun = DataParallelProgram;

class ParameterServerProgram : public DataParallelProgram {
 protected:
  ParameterServerProgram() : DataParallelProgram("03_parameter_server") {}
};
using BadParameterServerRun = ParameterServerProgram;

TEST_F(DataParallelProgram, CompressedGradientsComeClose) {
  for (const std::string compression : {"topk:0.5", "int8", "onebit", "powersgd:2"}) {
    expect_losses_of_one_rank(" --dp 2 --compress " + compression, 0.05);
  }
  expect_losses_of_one_rank(" --dp 2 --compress onebit --compress-warmup 5", 1e-10);
}

TEST_F(DataParallelProgram, TheSummaryHoldsItsFlags) {
  const json config = summary_of("--dp 2 --overlap per-parameter --check-replicas 1").at("config");
  EXPECT_EQ(config.at("dp"), 2);
  EXPECT_EQ(config.at("ranks"), 2);
  EXPECT_EQ(config.at("overlap"), "per-parameter");
  EXPECT_EQ(config.at("all_reduce"), "pairwise");
  EXPECT_EQ(config.at("compress"), "none");
}

TEST_F(DataParallelProgram, ExplainsItsMemoryAndItsCommunication) {
  expect_parts(output_of("--dp 2"), {"Where the memory went", "exposed s"});
}

TEST_F(DataParallelProgram, PrintsTheRanksThatItsFlagsNeed) {
  expect_ranks({{"", "1"}, {"--dp 3", "3"}});
}

TEST_F(DataParallelProgram, SaysHowFarReplicasScaleElsewhere) {
  const json rows = json::parse(answer_to("--dp 1,8,16 --global-batch 16 --on dgx-h100 --on-json"));
  EXPECT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows.back().at("ranks"), 16);
}

TEST_F(DataParallelProgram, KeepsWhatEarlierChaptersCan) {
  expect_parts(answer_to("--simulate nodes=2,gpus=4 --simulate-sizes 1MB"), {"ring"});
  expect_parts(answer_to("--op all_reduce --ranks 2 --max-bytes 4KB --iterations 1"), {"pairwise"});
  expect_parts(answer_to("--help"), {"--recompute", "--link"});
}

TEST_F(BadDataParallelRun, RanksThatDoNotFit) {
  refused({{"--dp 0", {"--dp is 0", "from 1 to"}},
           {"--dp 2 --ranks 3", {"--dp 2", "2 ranks", "--ranks is 3"}},
           {"--dp 300", {"--dp 300 needs 300.", "at most 256", "mpirun"}},
           {"--dp 5", {"5 replicas", "--global-batch of 4", "at most 4"}}});
}

TEST_F(BadDataParallelRun, FlagsThatCannotWork) {
  refused({{"--overlap some", {"--overlap is 'some'", "none, per-parameter or bucketed"}},
           {"--bucket-mb 0", {"--bucket-mb is 0", "from 1e-06 to 1000000"}},
           {"--bucket-mb nan", {"--bucket-mb is nan"}},
           {"--all-reduce chain", {"'chain'", "pairwise"}},
           {"--dp 2 --sync parameter-server", {"--sync", "./workbook run 03/parameter_server"}},
           {"--scale 1,8", {"--scale", "--dp 1,8,64 --on dgx-h100"}},
           {"--check-replicas -1", {"--check-replicas", "whole number"}},
           {"--no-error-feedback", {"--no-error-feedback", "--compress"}},
           {"--compress-warmup 3", {"--compress-warmup", "--compress"}},
           {"--compress int8 --compress-warmup 3 --optimizer sgd",
            {"keeps AdamW's second moments", "--optimizer sgd does not keep one"}}});
}

// Parameter servers ------------------------------------------------------------------------------

TEST_F(ParameterServerProgram, ServersUpdateByTheRuleOfOptimizer) {
  expect_losses_of_one_rank(" --dp 2 --servers 2", 1e-10, kFiveSteps + " --optimizer sgd");
}

TEST_F(ParameterServerProgram, AsynchronousTrainingComesClose) {
  expect_losses_of_one_rank(" --dp 2 --async --staleness 1 --straggler 1:5", 0.05);
}

TEST_F(ParameterServerProgram, PrintsTheRanksThatItsFlagsNeed) {
  expect_ranks({{"", "2"}, {"--dp 3", "4"}, {"--dp 3 --servers 2", "5"}, {"--ranks 4", "4"}});
}

TEST_F(BadParameterServerRun, RanksThatDoNotFit) {
  refused({{"--dp 2 --ranks 2", {"--dp 2 and --servers 1: 3 ranks", "--ranks is 2"}},
           {"--dp 5", {"5 replicas", "--global-batch of 4", "at most 4"}},
           {"--ranks 1", {"--servers 1 leave none of 1 ranks", "--dp N"}},
           {"--dp 2 --straggler 2:5", {"--straggler", "no replica 2"}}});
}

/// What replicas do that add up their gradients themselves is no flag of this program.
TEST_F(BadParameterServerRun, FlagsOfAnAllReduce) {
  for (const std::string flag : {"--overlap", "--bucket-mb", "--compress", "--all-reduce"}) {
    refused({{"--dp 2 " + flag + " 1", {flag, "03_parameter_server --help"}}});
  }
}

TEST_F(BadParameterServerRun, TrainingThatDivergesEndsAllRanks) {
  for (const std::string how : {"", " --async"}) {
    failed("--steps 9 --lr 1e30 --clip 0 --dp 2" + how, 2, {"at step", "lower --lr"});
  }
}

}  // namespace
}  // namespace ultra::data_parallel

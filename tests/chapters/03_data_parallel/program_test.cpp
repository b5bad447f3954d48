// The executable 03_data_parallel, started as a user starts it.

#include <gtest/gtest.h>

#include <string>

#include "tests/support/program.hpp"

namespace ultra::data_parallel {
namespace {

using nlohmann::json;
using ultra::test::expect_parts;

const std::string kFiveSteps = "--steps 5 --global-batch 6 --dtype f64";
const std::string kServed = " --dp 2 --sync parameter-server";

class DataParallelProgram : public ultra::test::ProgramTest {
 protected:
  DataParallelProgram() : ProgramTest("03_data_parallel") {}

  void expect_losses_of_one_rank(const std::string& more, double tolerance) const {
    SCOPED_TRACE(more);
    ultra::test::expect_near_losses(losses_of(kFiveSteps + more), losses_of(kFiveSteps), tolerance);
  }
};
using BadDataParallelRun = DataParallelProgram;

TEST_F(DataParallelProgram, EveryWayToAverageHasTheLossesOfOneRank) {
  for (const char* flags :
       {" --dp 2", " --dp 4", " --dp 3 --overlap none", " --dp 3 --overlap per-parameter",
        " --dp 3 --bucket-mb 0.01 --check-replicas 2", " --dp 2 --all-reduce ring",
        " --ranks 3 --collectives native"}) {
    expect_losses_of_one_rank(flags, 1e-10);
  }
}

TEST_F(DataParallelProgram, ParameterServersHaveTheLossesOfOneRank) {
  for (const char* more :
       {"", " --servers 2 --priority wait-free", " --priority priority --slice-kb 1"}) {
    expect_losses_of_one_rank(kServed + more, 1e-10);
  }
}

TEST_F(DataParallelProgram, AsynchronousTrainingComesClose) {
  expect_losses_of_one_rank(kServed + " --async --staleness 1 --straggler 1:5", 0.05);
}

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
  const json served = summary_of("--dp 2 --sync parameter-server --servers 2").at("config");
  EXPECT_EQ(served.at("dp"), 2);
  EXPECT_EQ(served.at("ranks"), 4);
  EXPECT_EQ(served.at("sync"), "parameter-server");
}

TEST_F(DataParallelProgram, ExplainsItsMemoryAndItsCommunication) {
  expect_parts(output_of("--dp 2"), {"Where the memory went", "exposed s"});
}

TEST_F(DataParallelProgram, PrintsTheRanksThatItsFlagsNeed) {
  expect_ranks({{"", "1"}, {"--dp 3", "3"}, {"--dp 3 --sync parameter-server --servers 2", "5"}});
}

TEST_F(DataParallelProgram, PredictsScalingInsteadOfTraining) {
  EXPECT_EQ(json::parse(answer_to("--scale 1,8,64 --scale-json")).at("points").size(), 3U);
}

TEST_F(DataParallelProgram, KeepsWhatEarlierChaptersCan) {
  expect_parts(output_of("--estimate llama-7b"), {"6,738,415,616"});
  expect_parts(answer_to("--simulate nodes=2,gpus=4 --simulate-sizes 1MB"), {"ring"});
  expect_parts(answer_to("--op all_reduce --ranks 2 --max-bytes 4KB --iterations 1"), {"pairwise"});
  expect_parts(answer_to("--help"), {"--recompute", "--link"});
}

TEST_F(BadDataParallelRun, RanksThatDoNotFit) {
  refused({{"--dp 0", {"--dp is 0", "from 1 to"}},
           {"--dp 2 --ranks 3", {"--dp 2", "2 ranks", "--ranks is 3"}},
           {"--dp 300", {"--dp 300 needs 300.", "at most 256", "mpirun"}},
           {"--dp 5", {"5 replicas", "--global-batch of 4", "at most 4"}},
           {"--sync parameter-server --ranks 1", {"--servers 1", "--dp N"}},
           {"--dp 2 --straggler 2:5", {"--straggler", "no replica 2"}}});
}

TEST_F(BadDataParallelRun, FlagsThatCannotWork) {
  refused({{"--overlap some", {"--overlap is 'some'", "none, per-parameter or bucketed"}},
           {"--bucket-mb 0", {"--bucket-mb is 0", "from 1e-06 to 1000000"}},
           {"--bucket-mb nan", {"--bucket-mb is nan"}},
           {"--all-reduce chain", {"'chain'", "pairwise"}},
           {"--check-replicas -1", {"--check-replicas", "whole number"}},
           {"--no-error-feedback", {"--no-error-feedback", "--compress"}},
           {"--compress-warmup 3", {"--compress-warmup", "--compress"}},
           {"--compress int8 --compress-warmup 3 --optimizer sgd",
            {"keeps AdamW's second moments", "--optimizer sgd has none"}}});
}

TEST_F(BadDataParallelRun, FlagsWithoutTheOneThatTheyNeed) {
  const std::string served = "--dp 2 --sync parameter-server ";
  for (const std::string flag : {"--overlap none", "--bucket-mb 1", "--compress int8",
                                 "--all-reduce ring", "--check-replicas 1"}) {
    refused({{served + flag, {flag.substr(0, flag.find(' ')), "--sync parameter-server"}}});
  }
}

TEST_F(BadDataParallelRun, TrainingThatDivergesEndsAllRanks) {
  const std::string diverges = "--steps 9 --lr 1e30 --clip 0 --dp 2";
  failed(diverges, 2, {"at step", "lower --lr"});
  failed(diverges + " --sync parameter-server", 2, {"at step", "lower --lr"});
}

}  // namespace
}  // namespace ultra::data_parallel

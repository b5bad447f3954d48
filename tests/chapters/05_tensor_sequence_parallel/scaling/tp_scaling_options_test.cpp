#include "chapters/05_tensor_sequence_parallel/scaling/tp_scaling_technique.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "chapters/03_data_parallel/scaling/scaling_technique.hpp"
#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/programs/command_line.hpp"

namespace ultra::tensor_parallel {
namespace {

using test::parsed;
using test::words_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

TpScalingOptions options_of(const std::string& flags) {
  const auto options = parsed<TpScalingOptions>(words_of(flags));
  options.validate();
  return options;
}

TpScalingRequest request_of(const std::string& flags) { return options_of(flags).request({}); }

std::string refusal(const std::string& flags) {
  return test::message_of<ConfigError>([&] { static_cast<void>(request_of(flags)); });
}

TEST(TpScalingOptions, NoFlagsPredictNothing) { EXPECT_FALSE(options_of("").predicts()); }

TEST(TpScalingOptions, NumbersOfRanksAskThePlaybooksQuestion) {
  EXPECT_TRUE(options_of("--scale-tp 2,4").predicts());
  const TpScalingRequest request = request_of("--scale-tp 1,2,4,8,16,32");
  EXPECT_TRUE(request.is_the_playbooks());
  EXPECT_THAT(request.tp, ElementsAre(1, 2, 4, 8, 16, 32));
  EXPECT_THAT(request.micro_batch, ElementsAre(4U, 4U, 10U, 20U, 40U, 100U));
  EXPECT_EQ(request.model, playbook_model());
  EXPECT_EQ(request.machine, collectives::parse_topology("h100"));
  EXPECT_EQ(request.seq_len, 4096U);
  EXPECT_EQ(request.sequence_parallel, SequenceParallel::kOn);
  EXPECT_EQ(request.hide, Hide::kNothing);
  EXPECT_EQ(request.algorithm, ExchangeAlgorithm::kTwoLevel);
  EXPECT_EQ(request.element_bytes, 2U);
  EXPECT_EQ(request.peak_flops, 989e12);
  EXPECT_EQ(request.mfu, 0.4);
  EXPECT_EQ(request.memory_bandwidth, 3.35e12);
}

TEST(TpScalingOptions, ReachTheRequest) {
  const TpScalingRequest request = request_of(
      "--scale-tp 2,8 --scale-tp-machine gpus=4,nics=1 --scale-tp-preset llama-8b "
      "--scale-tp-seq 8192 --scale-tp-micro-batch 3,5 --scale-tp-sp off "
      "--scale-tp-hide weight-gradients --scale-tp-algorithm ring --scale-tp-bytes 4 "
      "--scale-tp-peak-tflops 312 --scale-tp-mfu 0.5 --scale-tp-memory-gb-per-second 2000");
  EXPECT_THAT(request.tp, ElementsAre(2, 8));
  EXPECT_EQ(request.machine, collectives::parse_topology("gpus=4,nics=1"));
  EXPECT_EQ(memory::parameter_count(request.model), 8'030'261'248U) << "Llama 3 8B";
  EXPECT_EQ(request.seq_len, 8192U);
  EXPECT_THAT(request.micro_batch, ElementsAre(3U, 5U));
  EXPECT_EQ(request.sequence_parallel, SequenceParallel::kOff);
  EXPECT_EQ(request.hide, Hide::kWeightGradients);
  EXPECT_EQ(request.algorithm, ExchangeAlgorithm::kRing);
  EXPECT_EQ(request.element_bytes, 4U);
  EXPECT_EQ(request.flops(), 156e12);
  EXPECT_EQ(request.memory_bandwidth, 2e12);
}

TEST(TpScalingOptions, OtherModelsHaveOneMicroBatch) {
  EXPECT_THAT(request_of("--scale-tp 2,8 --scale-tp-preset llama-8b").micro_batch, ElementsAre(4U));
}

TEST(TpScalingOptions, CustomIsTheModelThatTheTrainersFlagsDescribe) {
  const TpScalingRequest request = options_of("--scale-tp 2 --scale-tp-preset custom")
                                       .request({.vocab_size = 100, .hidden_size = 64});
  EXPECT_EQ(request.model.vocab_size, 100U);
  EXPECT_EQ(request.model.hidden_size, 64U);
}

TEST(TpScalingOptions, AnswerWithATableOrJson) {
  EXPECT_THAT(options_of("--scale-tp 2,8").answer({}), StartsWith("Prediction for playbook-3b"));
  const auto json = nlohmann::json::parse(options_of("--scale-tp 2,8 --scale-tp-json").answer({}));
  EXPECT_EQ(json["points"].size(), 2U);
}

/// One command line has both chapters' flags: CLI11 throws for a name that exists.
TEST(TpScalingOptions, ShareACommandLineWithDataParallelScaling) {
  data_parallel::ScalingOptions replicas;
  TpScalingOptions ranks;
  test::parse_into({"--scale", "1,2", "--scale-tp", "4", "--scale-mfu", "0.3"}, replicas, ranks);
  EXPECT_EQ(replicas.scale, "1,2");
  EXPECT_EQ(ranks.tp, "4");
  EXPECT_EQ(ranks.mfu, 0.4);
}

/// Chapter 03's tests have more of what both read the same way.
/// Each row's message begins with its first part, and has the others.
void expect_rows_refused(const std::vector<test::Refusal>& rows) {
  for (const test::Refusal& row : rows) {
    SCOPED_TRACE(row.line);
    EXPECT_THAT(refusal(row.line), StartsWith(row.parts.front()));
    test::expect_parts(refusal(row.line), row.parts);
  }
}

TEST(TpScalingOptionsRefuse, Ranks) {
  expect_rows_refused(
      {{"--scale-tp 1,x",
        {"--scale-tp '1,x': 'x' is not a whole number. Write for example 2,4,8."}},
       {"--scale-tp 0", {"--scale-tp 0: there are from 1 to 4096 ranks."}},
       {"--scale-tp 4097", {"--scale-tp 4097: there are from 1 to 4096 ranks."}},
       {"--scale-tp 8,4", {"--scale-tp must ascend: 4 comes after 8."}},
       {"--scale-tp 6 --scale-tp-preset llama-8b",
        {"--scale-tp 6 does not split llama-8b into equal parts: 32 heads",
         "Choose from 1, 2, 4, 8, 16, 32."}},
       {"--scale-tp 64", {"--scale-tp 64 does not split"}},
       {"--scale-tp 8 --scale-tp-seq 100",
        {"--scale-tp 8 does not split playbook-3b", "sequences of 100. Choose from 1, 2, 4."}},
       {"--scale-tp 8 --scale-tp-machine h100,gpus=6,nics=6",
        {"--scale-tp 8 does not fill nodes of 6 GPUs. Choose from 1, 2, 4."}}});
}

TEST(TpScalingOptionsRefuse, Sizes) {
  expect_rows_refused(
      {{"--scale-tp 8 --scale-tp-seq 0", {"--scale-tp-seq is 0. It must be from 1"}},
       {"--scale-tp 8 --scale-tp-bytes 9", {"--scale-tp-bytes is 9. It must be from 1 to 8."}},
       {"--scale-tp 8 --scale-tp-micro-batch -1",
        {"--scale-tp-micro-batch '-1': '-1' is not a whole number"}},
       {"--scale-tp 8 --scale-tp-micro-batch 0", {"--scale-tp-micro-batch is 0."}},
       {"--scale-tp 8 --scale-tp-micro-batch 1,2",
        {"--scale-tp-micro-batch has 2 numbers. It must have 1, or 1"}},
       {"--scale-tp 8 --scale-tp-micro-batch 1000000 --scale-tp-seq 100000000 --scale-tp-bytes 8",
        {"--scale-tp-micro-batch 1000000 x --scale-tp-seq 100000000", "at most 1e+18"}},
       {"--scale-tp 8 --scale-tp-peak-tflops 0", {"--scale-tp-peak-tflops is 0."}},
       {"--scale-tp 8 --scale-tp-mfu 1.5",
        {"--scale-tp-mfu is 1.5. It must be a number from 0.001 to 1."}},
       {"--scale-tp 8 --scale-tp-memory-gb-per-second nan",
        {"--scale-tp-memory-gb-per-second is nan"}}});
}

TEST(TpScalingOptionsRefuse, Names) {
  expect_rows_refused(
      {{"--scale-tp 8 --scale-tp-machine b200", {"--scale-tp-machine 'b200'", "h100"}},
       {"--scale-tp 8 --scale-tp-machine h100,nodes=4",
        {"--scale-tp-machine 'h100,nodes=4': leave out 'nodes=4'. --scale-tp says how many"}},
       {"--scale-tp 8 --scale-tp-machine torus=4x4",
        {"--scale-tp-machine describes one node: --scale-tp says how many there are."}},
       {"--scale-tp 8 --scale-tp-preset gpt5",
        {"--scale-tp-preset: no model",
         "llama-405b or custom (with --layers, --hidden, ...). Or playbook-3b."}},
       {"--scale-tp 8 --scale-tp-sp maybe", {"--scale-tp-sp is 'maybe'. It must be on or off."}},
       {"--scale-tp 8 --scale-tp-hide maybe",
        {"--scale-tp-hide is 'maybe'. It must be nothing or weight-gradients."}},
       {"--scale-tp 8 --scale-tp-algorithm maybe",
        {"--scale-tp-algorithm is 'maybe'. It must be two-level or ring."}}});
}

TEST(TpScalingOptionsRefuse, FlagsWithoutAPrediction) {
  for (const char* flag :
       {"--scale-tp-machine pcie", "--scale-tp-preset llama-8b", "--scale-tp-seq 1",
        "--scale-tp-micro-batch 1", "--scale-tp-sp off", "--scale-tp-hide weight-gradients",
        "--scale-tp-algorithm ring", "--scale-tp-bytes 4", "--scale-tp-peak-tflops 1",
        "--scale-tp-mfu 1", "--scale-tp-memory-gb-per-second 1", "--scale-tp-json"}) {
    EXPECT_EQ(refusal(flag),
              words_of(flag).front() + " needs --scale-tp RANKS, for example --scale-tp 2,4,8,16.");
  }
}

TEST(TpScalingOptionsRefuse, SignsAndFractionsWhereThingsAreCounted) {
  for (const char* flag : {"--scale-tp-seq", "--scale-tp-bytes"}) {
    for (const char* value : {"-1", "1.5"}) {
      EXPECT_THROW(static_cast<void>(parsed<TpScalingOptions>({"--scale-tp", "8", flag, value})),
                   ConfigError)
          << flag;
    }
  }
}

}  // namespace
}  // namespace ultra::tensor_parallel

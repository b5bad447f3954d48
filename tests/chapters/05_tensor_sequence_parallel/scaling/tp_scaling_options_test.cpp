#include "chapters/05_tensor_sequence_parallel/scaling/tp_scaling_options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "chapters/03_data_parallel/scaling/scaling_options.hpp"
#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/parse_options.hpp"

namespace ultra::tensor_parallel {
namespace {

using test::parsed;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

TpScalingRequest request_of(const std::vector<std::string>& arguments) {
  const TpScalingOptions options = parsed<TpScalingOptions>(arguments);
  options.validate();
  return options.request(nn::ModelConfig{});
}

std::string refusal(const std::vector<std::string>& arguments) {
  return test::message_of<ConfigError>([&] { static_cast<void>(request_of(arguments)); });
}

TEST(TpScalingOptions, NoFlagsPredictNothing) {
  const TpScalingOptions options = parsed<TpScalingOptions>({});
  EXPECT_NO_THROW(options.validate());
  EXPECT_FALSE(options.predicts());
}

TEST(TpScalingOptions, NumbersOfRanksAskThePlaybooksQuestion) {
  EXPECT_TRUE(parsed<TpScalingOptions>({"--scale-tp", "2,4"}).predicts());
  const TpScalingRequest request = request_of({"--scale-tp", "1,2,4,8,16,32"});
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
  std::vector<std::string> arguments = {"--scale-tp", "2,8"};
  const std::vector<std::vector<std::string>> flags = {{"--scale-tp-machine", "gpus=4,nics=1"},
                                                       {"--scale-tp-preset", "llama-8b"},
                                                       {"--scale-tp-seq", "8192"},
                                                       {"--scale-tp-micro-batch", "3,5"},
                                                       {"--scale-tp-sp", "off"},
                                                       {"--scale-tp-hide", "weight-gradients"},
                                                       {"--scale-tp-algorithm", "ring"},
                                                       {"--scale-tp-bytes", "4"},
                                                       {"--scale-tp-peak-tflops", "312"},
                                                       {"--scale-tp-mfu", "0.5"},
                                                       {"--scale-tp-memory-gb-per-second", "2000"}};
  for (const std::vector<std::string>& flag : flags) {
    arguments.insert(arguments.end(), flag.begin(), flag.end());
  }
  const TpScalingRequest request = request_of(arguments);
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
  EXPECT_THAT(request_of({"--scale-tp", "2,8", "--scale-tp-preset", "llama-8b"}).micro_batch,
              ElementsAre(4U));
}

TEST(TpScalingOptions, CustomIsTheModelThatTheTrainersFlagsDescribe) {
  const TpScalingOptions options =
      parsed<TpScalingOptions>({"--scale-tp", "2", "--scale-tp-preset", "custom"});
  const TpScalingRequest request = options.request({.vocab_size = 100, .hidden_size = 64});
  EXPECT_EQ(request.model.vocab_size, 100U);
  EXPECT_EQ(request.model.hidden_size, 64U);
}

TEST(TpScalingOptions, AnswerWithATableOrJson) {
  const nn::ModelConfig config;
  EXPECT_THAT(parsed<TpScalingOptions>({"--scale-tp", "2,8"}).answer(config),
              StartsWith("Prediction for playbook-3b"));
  const auto json = nlohmann::json::parse(
      parsed<TpScalingOptions>({"--scale-tp", "2,8", "--scale-tp-json"}).answer(config));
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

TEST(TpScalingOptionsRefuse, NumbersThatAreNone) {
  EXPECT_THAT(refusal({"--scale-tp", "1,x"}), AllOf(HasSubstr("--scale-tp 1,x"), HasSubstr("'x'")));
  EXPECT_THAT(refusal({"--scale-tp", "1,"}), HasSubstr("''"));
  EXPECT_THAT(refusal({"--scale-tp", "8,4"}), HasSubstr("4 comes after 8"));
  EXPECT_THAT(refusal({"--scale-tp", "8", "--scale-tp-micro-batch", "-1"}),
              StartsWith("--scale-tp-micro-batch -1: '-1' is not a whole number"));
  EXPECT_THAT(refusal({"--scale-tp", "8", "--scale-tp-micro-batch", "1,2"}),
              HasSubstr("--scale-tp-micro-batch has 2 numbers"));
  std::string many = "1";
  for (int i = 2; i <= 101; ++i) many += "," + std::to_string(i);
  EXPECT_THAT(refusal({"--scale-tp", many}), HasSubstr("101 numbers. It must have at most 100"));
}

TEST(TpScalingOptionsRefuse, NamesThatAreNoneUnderTheirOwnFlag) {
  EXPECT_THAT(refusal({"--scale-tp", "8", "--scale-tp-machine", "b200"}),
              AllOf(StartsWith("--scale-tp-machine 'b200'"), HasSubstr("h100")));
  EXPECT_THAT(refusal({"--scale-tp", "8", "--scale-tp-machine", "h100,nodes=4"}),
              AllOf(StartsWith("--scale-tp-machine"), HasSubstr("leave out 'nodes=4'")));
  EXPECT_THAT(refusal({"--scale-tp", "8", "--scale-tp-preset", "gpt5"}),
              AllOf(StartsWith("--scale-tp-preset: no model"), HasSubstr("llama-8b"),
                    HasSubstr("Or playbook-3b.")));
  const auto word = [](const char* flag) {
    return test::message_of<ConfigError>([&] {
      static_cast<void>(parsed<TpScalingOptions>({"--scale-tp", "8", flag, "maybe"}));
    });
  };
  EXPECT_EQ(word("--scale-tp-sp"), "--scale-tp-sp is 'maybe'. It must be on or off.");
  EXPECT_EQ(word("--scale-tp-hide"),
            "--scale-tp-hide is 'maybe'. It must be nothing or weight-gradients.");
  EXPECT_EQ(word("--scale-tp-algorithm"),
            "--scale-tp-algorithm is 'maybe'. It must be two-level or ring.");
}

TEST(TpScalingOptionsRefuse, FlagsWithoutAPrediction) {
  const std::vector<std::vector<std::string>> flags = {{"--scale-tp-machine", "pcie"},
                                                       {"--scale-tp-preset", "llama-8b"},
                                                       {"--scale-tp-seq", "1"},
                                                       {"--scale-tp-micro-batch", "1"},
                                                       {"--scale-tp-sp", "off"},
                                                       {"--scale-tp-hide", "weight-gradients"},
                                                       {"--scale-tp-algorithm", "ring"},
                                                       {"--scale-tp-bytes", "4"},
                                                       {"--scale-tp-peak-tflops", "1"},
                                                       {"--scale-tp-mfu", "1"},
                                                       {"--scale-tp-memory-gb-per-second", "1"},
                                                       {"--scale-tp-json"}};
  for (const std::vector<std::string>& arguments : flags) {
    EXPECT_THAT(refusal(arguments),
                AllOf(StartsWith(arguments.front() + " needs --scale-tp"), HasSubstr("2,4,8,16")));
  }
}

TEST(TpScalingOptionsRefuse, SignsAndFractionsWhereThingsAreCounted) {
  for (const char* flag : {"--scale-tp-seq", "--scale-tp-bytes"}) {
    for (const char* value : {"-1", "1.5"}) {
      EXPECT_THROW(static_cast<void>(parsed<TpScalingOptions>({"--scale-tp", "8", flag, value})),
                   CLI::ParseError)
          << flag;
    }
  }
}

}  // namespace
}  // namespace ultra::tensor_parallel

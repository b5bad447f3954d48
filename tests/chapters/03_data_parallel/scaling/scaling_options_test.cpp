// Covers: chapters/03_data_parallel/scaling/scaling_flags.hpp

#include "chapters/03_data_parallel/scaling/scaling_options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/parse_options.hpp"

namespace ultra::data_parallel {
namespace {

using test::parsed;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

ScalingRequest request_of(const std::vector<std::string>& arguments) {
  const ScalingOptions options = parsed<ScalingOptions>(arguments);
  options.validate();
  return options.request(nn::ModelConfig{});
}

std::string refusal(const std::vector<std::string>& arguments) {
  return test::message_of<ConfigError>([&] { static_cast<void>(request_of(arguments)); });
}

TEST(ScalingOptions, NoFlagsPredictNothing) {
  const ScalingOptions options = parsed<ScalingOptions>({});
  EXPECT_NO_THROW(options.validate());
  EXPECT_FALSE(options.predicts());
}

TEST(ScalingOptions, NumbersOfReplicasAreEnough) {
  EXPECT_TRUE(parsed<ScalingOptions>({"--scale", "1,2"}).predicts());
  const ScalingRequest request = request_of({"--scale", "1,2,64"});
  EXPECT_THAT(request.dp, ElementsAre(1, 2, 64));
  EXPECT_EQ(request.model.name, "llama-1b");
  EXPECT_EQ(request.machine, collectives::parse_topology("h100"));
  EXPECT_EQ(request.algorithm, "two-level");
  EXPECT_EQ(request.batch_rule, BatchRule::kGlobal);
  EXPECT_EQ(request.batch, 256u);
  EXPECT_EQ(request.seq_len, 4096u);
  EXPECT_EQ(request.micro_batch, 0u);
  EXPECT_EQ(request.element_bytes, 2u);
  EXPECT_EQ(request.peak_flops, 989e12);
  EXPECT_EQ(request.mfu, 0.4);
  EXPECT_EQ(request.bucket_bytes, 25e6);
}

TEST(ScalingOptions, ReachTheRequest) {
  const ScalingRequest request = request_of({"--scale",
                                             "8",
                                             "--scale-machine",
                                             "gpus=4,nics=1",
                                             "--scale-algorithm",
                                             "ring",
                                             "--scale-preset",
                                             "llama-8b",
                                             "--scale-seq",
                                             "8192",
                                             "--scale-rank-batch",
                                             "3",
                                             "--scale-micro-batch",
                                             "2",
                                             "--scale-bytes",
                                             "4",
                                             "--scale-peak-tflops",
                                             "312",
                                             "--scale-mfu",
                                             "0.5",
                                             "--scale-bucket-mb",
                                             "100"});
  EXPECT_EQ(request.machine, collectives::parse_topology("gpus=4,nics=1"));
  EXPECT_EQ(request.algorithm, "ring");
  EXPECT_EQ(request.model.total(), 8'030'261'248u) << "Llama 3 8B";
  EXPECT_EQ(request.seq_len, 8192u);
  EXPECT_EQ(request.batch_rule, BatchRule::kPerRank);
  EXPECT_EQ(request.batch, 3u);
  EXPECT_EQ(request.micro_batch, 2u);
  EXPECT_EQ(request.element_bytes, 4u);
  EXPECT_EQ(request.flops(), 156e12);
  EXPECT_EQ(request.bucket_bytes, 100e6);
  EXPECT_EQ(request_of({"--scale", "8", "--scale-global-batch", "512"}).batch, 512u);
}

TEST(ScalingOptions, CustomIsTheModelThatTheTrainersFlagsDescribe) {
  const ScalingOptions options =
      parsed<ScalingOptions>({"--scale", "2", "--scale-preset", "custom"});
  const ScalingRequest request = options.request({.vocab_size = 100, .hidden_size = 64});
  EXPECT_EQ(request.model.parameters.front(), 6400u);
  EXPECT_EQ(request.model.parameters.back(), 6400u);
}

TEST(ScalingOptions, AnswerWithATableOrJson) {
  const nn::ModelConfig config;
  EXPECT_THAT(parsed<ScalingOptions>({"--scale", "1,8"}).answer(config), StartsWith("Prediction"));
  const auto json = nlohmann::json::parse(
      parsed<ScalingOptions>({"--scale", "1,8", "--scale-json"}).answer(config));
  EXPECT_EQ(json["points"].size(), 2u);
}

TEST(ScalingOptionsRefuse, NumbersThatAreNone) {
  EXPECT_THAT(refusal({"--scale", "1,x"}), AllOf(HasSubstr("--scale 1,x"), HasSubstr("'x'")));
  EXPECT_THAT(refusal({"--scale", "1,"}), HasSubstr("''"));
  EXPECT_THAT(refusal({"--scale", "1.5"}), HasSubstr("'1.5'"));
  EXPECT_THAT(refusal({"--scale", "8,4"}), HasSubstr("4 comes after 8"));
  std::string many = "1";
  for (int i = 2; i <= 101; ++i) many += "," + std::to_string(i);
  EXPECT_THAT(refusal({"--scale", many}), HasSubstr("101 numbers. It must have at most 100"));
}

TEST(ScalingOptionsRefuse, NamesThatAreNoneUnderTheirOwnFlag) {
  EXPECT_THAT(refusal({"--scale", "8", "--scale-machine", "b200"}),
              AllOf(StartsWith("--scale-machine 'b200'"), HasSubstr("h100")));
  EXPECT_THAT(refusal({"--scale", "8", "--scale-machine", "h100,nics=9"}),
              StartsWith("--scale-machine: nics=9 is more than gpus=8"));
  EXPECT_THAT(refusal({"--scale", "8", "--scale-machine", "h100,nodes=4"}),
              AllOf(StartsWith("--scale-machine"), HasSubstr("leave out 'nodes=4'")));
  EXPECT_THAT(refusal({"--scale", "8", "--scale-preset", "gpt5"}),
              AllOf(StartsWith("--scale-preset: no model"), HasSubstr("llama-8b")));
  EXPECT_THAT(refusal({"--scale", "8", "--scale-algorithm", "star"}),
              AllOf(StartsWith("--scale-algorithm: no algorithm"), HasSubstr("two-level")));
}

TEST(ScalingOptionsRefuse, BothRulesForTheBatch) {
  EXPECT_THAT(refusal({"--scale", "8", "--scale-global-batch", "64", "--scale-rank-batch", "1"}),
              HasSubstr("--scale-global-batch 64 and --scale-rank-batch 1 exclude each other"));
}

TEST(ScalingOptionsRefuse, FlagsWithoutAPrediction) {
  const std::vector<std::vector<std::string>> flags = {
      {"--scale-machine", "pcie"},  {"--scale-algorithm", "ring"}, {"--scale-preset", "llama-8b"},
      {"--scale-seq", "1"},         {"--scale-global-batch", "1"}, {"--scale-rank-batch", "1"},
      {"--scale-micro-batch", "1"}, {"--scale-bytes", "4"},        {"--scale-peak-tflops", "1"},
      {"--scale-mfu", "1"},         {"--scale-bucket-mb", "1"},    {"--scale-json"}};
  for (const std::vector<std::string>& arguments : flags) {
    EXPECT_THAT(refusal(arguments),
                AllOf(StartsWith(arguments.front() + " needs --scale"), HasSubstr("1,2,4,8")));
  }
}

TEST(ScalingOptionsRefuse, SignsAndFractionsWhereThingsAreCounted) {
  for (const char* flag : {"--scale-seq", "--scale-global-batch", "--scale-rank-batch",
                           "--scale-micro-batch", "--scale-bytes"}) {
    EXPECT_THROW(static_cast<void>(parsed<ScalingOptions>({"--scale", "8", flag, "-1"})),
                 CLI::ParseError)
        << flag;
    EXPECT_THROW(static_cast<void>(parsed<ScalingOptions>({"--scale", "8", flag, "1.5"})),
                 CLI::ParseError)
        << flag;
  }
}

}  // namespace
}  // namespace ultra::data_parallel

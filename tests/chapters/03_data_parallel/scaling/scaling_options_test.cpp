// Covers: chapters/03_data_parallel/scaling/scaling_flags.hpp

#include "chapters/03_data_parallel/scaling/scaling_technique.hpp"

#include <nlohmann/json.hpp>

#include "tests/support/programs/command_line.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::data_parallel {
namespace {

using test::parsed;
using test::words_of;

ScalingOptions options_of(const std::string& flags) {
  const auto options = parsed<ScalingOptions>(words_of(flags));
  options.validate();
  return options;
}

ScalingRequest request_of(const std::string& flags) { return options_of(flags).request({}); }

std::string refusal(const std::string& flags) {
  return test::message_of<ConfigError>([&] { static_cast<void>(options_of(flags).answer({})); });
}

TEST(ScalingOptions, NoFlagsPredictNothing) { EXPECT_FALSE(options_of("").predicts()); }

TEST(ScalingOptions, NumbersOfReplicasAreEnough) {
  EXPECT_TRUE(options_of("--scale 1,2").predicts());
  const ScalingRequest request = request_of("--scale 1,2,64");
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
  const ScalingRequest request = request_of(
      "--scale 8 --scale-machine gpus=4,nics=1 --scale-algorithm ring --scale-preset llama-8b "
      "--scale-seq 8192 --scale-rank-batch 3 --scale-micro-batch 2 --scale-bytes 4 "
      "--scale-peak-tflops 312 --scale-mfu 0.5 --scale-bucket-mb 100");
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
  EXPECT_EQ(request_of("--scale 8 --scale-global-batch 512").batch, 512u);
}

TEST(ScalingOptions, CustomIsTheModelThatTheTrainersFlagsDescribe) {
  const ScalingRequest request =
      options_of("--scale 2 --scale-preset custom").request({.vocab_size = 100, .hidden_size = 64});
  EXPECT_EQ(request.model.parameters.front(), 6400u);
  EXPECT_EQ(request.model.parameters.back(), 6400u);
}

TEST(ScalingOptions, AnswerWithATableOrJson) {
  EXPECT_THAT(options_of("--scale 1,8").answer({}), StartsWith("Prediction"));
  const auto json = nlohmann::json::parse(options_of("--scale 1,8 --scale-json").answer({}));
  EXPECT_EQ(json["points"].size(), 2u);
}

/// Each row's message begins with its first part, and has the others.
void expect_rows_refused(const std::vector<test::Refusal>& rows) {
  for (const test::Refusal& row : rows) {
    SCOPED_TRACE(row.line);
    EXPECT_THAT(refusal(row.line), StartsWith(row.parts.front()));
    test::expect_parts(refusal(row.line), row.parts);
  }
}

TEST(ScalingOptionsRefuse, Numbers) {
  expect_rows_refused(
      {{"--scale 1,x", {"--scale '1,x': 'x' is not a whole number. Write for example 1,2,4,8."}},
       {"--scale 1,", {"--scale '1,': ''"}},
       {"--scale 1.5", {"--scale '1.5': '1.5'"}},
       {"--scale 0,1", {"--scale 0: there is at least 1 replica."}},
       {"--scale 8,4", {"--scale must ascend: 4 comes after 8."}},
       {"--scale 4,4", {"--scale must ascend: 4 comes after 4."}},
       {"--scale 9,10",
        {"--scale: no number of replicas is left. Without 9: they do not fill "
         "nodes of 8 GPUs."}},
       {"--scale 8 --scale-seq 0", {"--scale-seq is 0. It must be from 1 to 1000000000."}},
       {"--scale 8 --scale-global-batch 0", {"--scale-global-batch is 0."}},
       {"--scale 8 --scale-rank-batch 0", {"--scale-rank-batch is 0."}},
       {"--scale 8 --scale-bytes 9", {"--scale-bytes is 9. It must be from 1 to 8."}},
       {"--scale 8 --scale-peak-tflops 0",
        {"--scale-peak-tflops is 0. It must be a number from 0.001 to"}},
       {"--scale 8 --scale-mfu 1.5", {"--scale-mfu is 1.5. It must be a number from 0.001 to 1."}},
       {"--scale 8 --scale-mfu nan", {"--scale-mfu is nan."}},
       {"--scale 8 --scale-bucket-mb -1", {"--scale-bucket-mb is -1."}},
       {"--scale 8 --scale-global-batch 64 --scale-rank-batch 1",
        {"--scale-global-batch 64 and --scale-rank-batch 1 exclude each other"}}});
}

/// Under their own flag, not that of --simulate or --estimate.
TEST(ScalingOptionsRefuse, Names) {
  expect_rows_refused(
      {{"--scale 8 --scale-machine b200", {"--scale-machine 'b200'", "h100"}},
       {"--scale 8 --scale-machine h100,nics=9", {"--scale-machine: nics=9 is more than gpus=8"}},
       {"--scale 8 --scale-machine h100,nodes=4",
        {"--scale-machine 'h100,nodes=4': leave out 'nodes=4'. --scale says how many"}},
       {"--scale 8 --scale-machine torus=4x4",
        {"--scale-machine describes one node: --scale says how many there are.", "4 x 4 torus"}},
       {"--scale 8 --scale-preset gpt5", {"--scale-preset: no model", "llama-8b"}},
       {"--scale 8 --scale-algorithm star", {"--scale-algorithm: no algorithm", "two-level"}}});
}

TEST(ScalingOptionsRefuse, MoreNumbersThanAreSensible) {
  std::string many = "1";
  for (int i = 2; i <= 101; ++i) many += "," + std::to_string(i);
  EXPECT_THAT(refusal("--scale " + many),
              HasSubstr("--scale has 101 numbers. It must have at most 100."));
}

TEST(ScalingOptionsRefuse, FlagsWithoutAPrediction) {
  for (const char* flag :
       {"--scale-machine pcie", "--scale-algorithm ring", "--scale-preset llama-8b",
        "--scale-seq 1", "--scale-global-batch 1", "--scale-rank-batch 1", "--scale-micro-batch 1",
        "--scale-bytes 4", "--scale-peak-tflops 1", "--scale-mfu 1", "--scale-bucket-mb 1",
        "--scale-json"}) {
    EXPECT_EQ(refusal(flag),
              words_of(flag).front() + " needs --scale REPLICAS, for example --scale 1,2,4,8.");
  }
}

TEST(ScalingOptionsRefuse, SignsAndFractionsWhereThingsAreCounted) {
  for (const char* flag : {"--scale-seq", "--scale-global-batch", "--scale-rank-batch",
                           "--scale-micro-batch", "--scale-bytes"}) {
    for (const char* value : {"-1", "1.5"}) {
      EXPECT_THROW(static_cast<void>(parsed<ScalingOptions>({"--scale", "8", flag, value})),
                   ConfigError)
          << flag;
    }
  }
}

}  // namespace
}  // namespace ultra::data_parallel

// The executable 10_mixed_precision, started as a user starts it.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "common/checkpoint/safetensors/safetensors.hpp"
#include "tests/support/programs/program.hpp"

namespace ultra::mixed_precision {
namespace {

using nlohmann::json;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ultra::test::events_of;
using ultra::test::expect_near_losses;
using ultra::test::expect_parts;

class PrecisionProgram : public ultra::test::ProgramTest {
 protected:
  PrecisionProgram() : ProgramTest("10_mixed_precision") {}
};
using BadPrecisionRun = PrecisionProgram;

// Training ----------------------------------------------------------------------------------------

TEST_F(PrecisionProgram, WithoutPrecisionItIsThePreviousChapter) {
  for (const char* flags : {"--steps 3", "--steps 3 --dp 2 --zero 3", "--steps 2 --dtype f64"}) {
    EXPECT_EQ(losses_of(flags), losses_of(std::string(flags) + " --precision fp32"));
  }
}

TEST_F(PrecisionProgram, EveryPrecisionTrainsInEveryLayout) {
  for (const std::string precision : {"bf16", "bf16-pure", "fp16", "fp8"}) {
    const json expected = losses_of("--steps 3 --precision " + precision);
    for (const char* flags : {"--dp 2 --zero 1", "--tp 2 --sp on", "--cp 2", "--pp 2",
                              "--dp 2 --zero 3 --collectives native"}) {
      SCOPED_TRACE(precision + " " + flags);
      expect_near_losses(losses_of("--steps 3 --precision " + precision + " " + flags), expected,
                         1.0 / 256);
    }
  }
}

// What is saved is what the optimizer updates: in f32, whatever the precision. With the largest of the
// scales every step up to the checkpoint is skipped: there are no moments yet.
TEST_F(PrecisionProgram, AResumedTrainingHasTheLossesOfOneThatDidNotStop) {
  int number = 0;
  for (const std::string precision :
       {"bf16", "bf16 --zero 1 --offload optimizer", "bf16 --optimizer-state int8",
        "bf16-pure --rounding stochastic", "fp16 --loss-scale-window 2",
        "fp16 --grad-dtype f16 --loss-scale-start 1e12", "fp8"}) {
    for (const std::string layout : {"", " --dp 2 --zero 3"}) {
      if (precision.find("--zero") != std::string::npos && !layout.empty()) continue;
      SCOPED_TRACE(precision + layout);
      const std::string flags = "--precision " + precision + layout;
      const std::string saved = folder.path("saved" + std::to_string(number++));
      const json expected = losses_of("--steps 5 " + flags);
      static_cast<void>(output_of("--steps 3 " + flags + " --checkpoint " + saved));
      EXPECT_EQ(losses_of("--steps 5 " + flags + " --resume " + saved), expected);
    }
  }
}

TEST_F(PrecisionProgram, CheckpointsGoOnInAnyLayout) {
  const std::string saved = folder.path("saved");
  const std::string flags = "--precision bf16 ";
  const json expected = losses_of(flags + "--steps 5");
  static_cast<void>(output_of(flags + "--steps 3 --dp 2 --zero 3 --checkpoint " + saved));
  for (const char* layout : {"", "--dp 4 --zero 1", "--tp 2", "--pp 2"}) {
    SCOPED_TRACE(layout);
    expect_near_losses(losses_of(flags + "--steps 5 --resume " + saved + " " + layout), expected,
                       1.0 / 256);
  }
}

TEST_F(PrecisionProgram, AnotherPrecisionGoesOnAndSaysSo) {
  const std::string saved = folder.path("saved");
  static_cast<void>(output_of("--steps 3 --checkpoint " + saved));
  const std::string output = output_of("--steps 5 --precision bf16 --resume " + saved);
  EXPECT_THAT(output, HasSubstr("Resumed with weights bf16, gradients f32"));
  EXPECT_THAT(output, HasSubstr("everything in one type"));
  const std::string other = folder.path("other");
  static_cast<void>(output_of("--steps 3 --precision bf16 --checkpoint " + other));
  EXPECT_THAT(output_of("--steps 5 --resume " + other), HasSubstr("rounded where this run"));
}

// The histories of maxima are gathered over the ranks before anybody compares them.
TEST_F(PrecisionProgram, ReplicasStayEqual) {
  for (const char* flags : {"bf16", "bf16-pure --rounding stochastic", "fp16", "fp8",
                            "fp8 --fp8-recipe blockwise", "bf16 --optimizer-state int8"}) {
    static_cast<void>(
        output_of("--steps 3 --dp 2 --check-replicas 1 --precision " + std::string(flags)));
  }
}

TEST_F(PrecisionProgram, HistoriesOfMaximaBelongToTheTraining) {
  const std::string with = folder.path("with");
  const std::string without = folder.path("without");
  static_cast<void>(output_of("--steps 2 --precision fp8 --checkpoint " + with));
  static_cast<void>(output_of("--steps 2 --precision bf16 --checkpoint " + without));
  const std::string here = "--fp8-recipe delayed (with --precision fp8)";
  for (const std::string& flags : {"--precision bf16 --resume " + with,
                                   "--precision fp8 --fp8-recipe current --resume " + with,
                                   "--precision fp8 --resume " + without}) {
    const auto result = run("--steps 3 " + flags);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr(here));
    EXPECT_THAT(result.err, HasSubstr("Give what it was written with"));
  }
}

// Its forward passes put tensors in fp8 as well, and note their maxima.
TEST_F(PrecisionProgram, AValidationLeavesNothingInTheTraining) {
  int number = 0;
  for (const std::string precision : {"fp8", "fp8 --experts 4 --balance bias --bias-rate 0.1",
                                      "fp16", "bf16-pure --rounding stochastic"}) {
    SCOPED_TRACE(precision);
    const auto weights_with = [&](const std::string& more) {
      const std::string saved = folder.path("saved" + std::to_string(number++));
      static_cast<void>(output_of("--steps 3 --precision " + precision + " --save-every 2 " +
                                  "--checkpoint " + saved + more));
      return ultra::test::read_file(saved + "/step-00000002/model.safetensors") +
             ultra::test::read_file(saved + "/step-00000003/model.safetensors");
    };
    const std::string validation =
        fmt::format(" --val-data {} --val-every 1 --val-batches 2", ultra::test::kText);
    EXPECT_TRUE(weights_with(validation) == weights_with("")) << "a byte of the weights differs";
  }
}

/// The numbers of all tensors of a checkpoint whose name ends so.
std::vector<double> saved_numbers(const std::string& checkpoint, const std::string& suffix) {
  const checkpoint::SafetensorsReader weights(checkpoint::posix_files(),
                                              checkpoint + "/model.safetensors");
  std::vector<double> numbers;
  for (const auto& tensor : weights.tensors()) {
    if (!tensor.name.ends_with(suffix)) continue;
    const Tensor values = Tensor::empty(Device::cpu(), {tensor.numel()}, DType::kF32);
    weights.read(tensor.name, 0, values);
    for (const double number : values.to_vector()) numbers.push_back(number);
  }
  return numbers;
}

// Biases have no gradient, and move by what tokens have chosen: with the weights, or not at all.
TEST_F(PrecisionProgram, ASkippedStepMovesNoBiasOfARouter) {
  int number = 0;
  const auto biases_with = [&](const std::string& flags) {
    const std::string saved = folder.path("saved" + std::to_string(number++));
    static_cast<void>(
        output_of("--steps 3 --precision fp16 --grad-dtype f16 --experts 4 --top-k 1 "
                  "--balance bias --bias-rate 0.125 --checkpoint " +
                  saved + flags));
    return saved_numbers(saved + "/step-00000003", ".e_score_correction_bias");
  };
  for (const std::string layout : {"", " --dp 2 --ep 2 --zero 1"}) {
    SCOPED_TRACE(layout);
    const std::vector<double> skipped = biases_with(" --loss-scale 1e30" + layout);
    EXPECT_EQ(skipped, std::vector<double>(2 * 4, 0.0)) << "as they were made";
    EXPECT_NE(biases_with(" --loss-scale none" + layout), skipped) << "every step counts";
  }
}

// Both are numbers that no gradient changes. In the first step biases are 0, whatever their rate.
TEST_F(PrecisionProgram, HistoriesOfMaximaAreNoBiases) {
  const auto histories_with = [&](const std::string& rate) {
    const std::string saved = folder.path("rate" + rate);
    static_cast<void>(
        output_of("--steps 1 --precision fp8 --experts 4 --balance bias --bias-rate " + rate +
                  " --checkpoint " + saved));
    return saved_numbers(saved + "/step-00000001", ".fp8_amax_history");
  };
  const std::vector<double> histories = histories_with("64");
  EXPECT_FALSE(histories.empty());
  EXPECT_EQ(histories, histories_with("0"));
}

// Figures -----------------------------------------------------------------------------------------

TEST_F(PrecisionProgram, MetricsSayScaleAndSkips) {
  const std::string file = folder.path("metrics");
  static_cast<void>(
      output_of("--steps 4 --precision fp16 --grad-dtype f16 --loss-scale 1e30 --metrics " + file));
  const std::vector<json> events = events_of(file);
  for (std::size_t step = 0; step < 4; ++step) {
    EXPECT_EQ(events[step].at("loss_scale"), json{1e30});
    EXPECT_EQ(events[step].at("skipped"), json{1.0});
    EXPECT_TRUE(events[step].at("grad_norm").is_null());
  }
  const json& config = events.back().at("config");
  EXPECT_EQ(config.at("precision"), "fp16");
  EXPECT_EQ(config.at("grad_dtype"), "f16");
  EXPECT_EQ(config.at("master_weights"), "on");
  EXPECT_EQ(config.at("loss_scale"), 1e30);
}

// With a learning rate so small that bf16 cannot follow, most updates are lost; by chance none is in
// the mean, and with master weights there is nothing to lose.
TEST_F(PrecisionProgram, UpdatesThatAreLostAreCounted) {
  const auto lost = [this](const std::string& flags) {
    const std::string file = folder.path("metrics");
    static_cast<void>(output_of("--steps 3 --lr 1e-5 --warmup 1 --count-updates --metrics " + file +
                                " " + flags));
    return events_of(file)[2].at("lost_updates")[0].get<double>();
  };
  EXPECT_GT(lost("--precision bf16-pure"), 0.9);
  EXPECT_GT(lost("--precision bf16-pure --dp 2 --zero 3"), 0.9);
  EXPECT_EQ(lost("--precision bf16"), 0.0);
}

TEST_F(PrecisionProgram, ExponentsOfGradientsAreCounted) {
  const std::string file = folder.path("metrics");
  static_cast<void>(output_of("--steps 1 --count-updates --metrics " + file));
  const json exponents = events_of(file)[0].at("gradient_exponents");
  ASSERT_EQ(exponents.size(), 81U);
  double sum = 0;
  for (const json& count : exponents) sum += count.get<double>();
  const double zeros = events_of(file)[0].at("zero_gradients")[0];
  EXPECT_NEAR(sum, (1 - zeros) * events_of(file).back().at("parameters").get<double>(), 1e-6 * sum);
}

TEST_F(PrecisionProgram, TheTableOfFormatsNeedsNoRanks) {
  const std::string table = answer_to("--formats");
  for (const char* name : {"bf16", "e4m3", "e5m2", "448", "57344", "65504"}) {
    EXPECT_THAT(table, HasSubstr(name));
  }
}

TEST_F(PrecisionProgram, SumsThatDriftNeedNoRanks) {
  EXPECT_THAT(answer_to("--sum-drift"), HasSubstr("1024"));
}

// 1/rms, log-sum-exp and what routers compute stay in f32: all else has two bytes.
TEST_F(PrecisionProgram, ActivationsArePredictedToTheByte) {
  const std::string model = "--steps 1 --layers 4 --hidden 32 --heads 4 --kv-heads 2 --ffn 48 ";
  for (const std::string precision : {"bf16", "fp16"}) {
    const std::string base = model + "--precision " + precision + " ";
    for (const char* flags :
         {"", "--recompute selective", "--recompute full --recompute-every 2", "--dp 2 --zero 1",
          "--tp 2", "--tp 2 --sp on --recompute selective", "--cp 2 --tp 2",
          "--cp 2 --recompute full", "--experts 4 --top-k 2", "--experts 4 --balance bias"}) {
      SCOPED_TRACE(precision + " " + flags);
      EXPECT_THAT(output_of(base + flags), ContainsRegex("activations  [^\n]*exact"));
    }
    for (const char* schedule : {"1f1b", "zero-bubble-h1"}) {
      SCOPED_TRACE(precision + " " + schedule);
      const std::string table = output_of(base + "--pp 2 --schedule " + schedule);
      EXPECT_THAT(table, ContainsRegex("\n +0 +2 [^\n]* exact\n"));
      EXPECT_THAT(table, ContainsRegex("\n +1 +2 [^\n]* exact\n"));
    }
  }
}

// One byte for each input of a linear layer, with its scales, and the histories of delayed scaling.
// The wide one keeps more in its last block than the head does.
TEST_F(PrecisionProgram, WhatFp8KeepsIsPredictedToTheByte) {
  const std::string model = "--steps 1 --layers 4 --hidden 32 --heads 4 --kv-heads 2 --precision ";
  for (const std::string recipe : {"delayed", "blockwise"}) {
    for (const char* flags :
         {"--ffn 50", "--ffn 1200 --recompute selective",
          "--ffn 1200 --recompute full --recompute-every 2", "--ffn 48 --dp 2 --zero 1",
          "--ffn 48 --tp 2 --sp on", "--ffn 1200 --cp 2 --tp 2",
          "--ffn 48 --cp 2 --recompute selective", "--ffn 100 --experts 4 --tp 2 --sp on",
          "--ffn 50 --experts 4 --shared-experts 1",
          "--ffn 40 --experts 4 --shared-experts 2 --tp 2 --recompute selective"}) {
      SCOPED_TRACE(recipe + " " + flags);
      const std::string table = output_of(model + "fp8 --fp8-recipe " + recipe + " " + flags);
      for (const char* row : {"parameters", "gradients", "optimizer", "activations"}) {
        EXPECT_THAT(table, ContainsRegex(std::string("\n +") + row + " [^\n]*exact"));
      }
    }
    SCOPED_TRACE(recipe + " 1f1b");
    const std::string table =
        output_of(model + "fp8 --ffn 48 --pp 2 --schedule 1f1b --fp8-recipe " + recipe);
    for (const char* stage : {"\n +0 +2 ", "\n +1 +2 "}) {
      EXPECT_THAT(table, ContainsRegex(std::string(stage) +
                                       "[^\n]* exact [^\n]* exact [^\n]* exact [^\n]* exact\n"));
    }
  }
}

// The device holds the window of blocks, whatever the recipe; 12 bytes per parameter are elsewhere.
TEST_F(PrecisionProgram, MasterWeightsAreOffloadedWithTheMoments) {
  for (const char* flags : {"--precision bf16 --zero 1", "--precision fp16 --zero 2",
                            "--precision bf16 --grad-dtype bf16 --zero 3"}) {
    SCOPED_TRACE(flags);
    const std::string base =
        std::string("--steps 3 --dp 2 --layers 3 --hidden 96 --heads 4 ") + flags;
    const std::string table = output_of(base + " --offload optimizer");
    EXPECT_THAT(table, ContainsRegex("\n +optimizer +window [^\n]*exact"));
    EXPECT_THAT(table, ContainsRegex("\n +host +12 P / N [^\n]*exact"));
    EXPECT_EQ(losses_of(base + " --offload optimizer"), losses_of(base));
  }
}

TEST_F(PrecisionProgram, TheMemoryTableKnowsThePrecision) {
  const std::string table = output_of("--steps 1 --precision bf16 --dp 2 --zero 1");
  EXPECT_THAT(table, HasSubstr("2 P"));
  EXPECT_THAT(table, HasSubstr("4 P"));
  EXPECT_THAT(table, HasSubstr("12 P / N"));
}

TEST_F(PrecisionProgram, EstimatesKnowTheRecipes) {
  const json sixteen =
      json::parse(answer_to("--estimate llama-8b --json --precision bf16 --grad-dtype bf16"));
  EXPECT_EQ(sixteen.at("bytes_per_parameter").at("total"), 16);
  const json eighteen = json::parse(answer_to("--estimate llama-8b --json --precision bf16"));
  EXPECT_EQ(eighteen.at("bytes_per_parameter").at("total"), 18);
  EXPECT_EQ(eighteen.at("bytes_per_parameter").at("optimizer"), 12);
  EXPECT_THAT(answer_to("--estimate llama-8b --precision bf16-pure"), HasSubstr("12"));
  EXPECT_EQ(answer_to("--estimate llama-8b --precision fp32"),
            answer_to("--estimate llama-8b --precision fp32 --steps 3"));
}

// Bad input ---------------------------------------------------------------------------------------

TEST_F(BadPrecisionRun, IsRefusedInWords) {
  for (const auto& [flags, part] : std::vector<std::pair<std::string, std::string>>{
           {"--precision half", "--precision is 'half'"},
           {"--precision bf16 --dtype f64", "--dtype f64 does not go together with --precision"},
           {"--precision bf16 --dp 2 --compress int8", "--compress does not go together"},
           {"--loss-scale 1024 --dp 2 --compress int8", "--compress does not go together"},
           {"--precision bf16-mixed", "needs --estimate"},
           {"--formats --estimate llama-8b", "--formats"}}) {
    SCOPED_TRACE(flags);
    const auto result = run(flags);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(ultra::test::error_lines(result.err), 1) << result.err;
    EXPECT_THAT(result.err, HasSubstr(part));
  }
}

}  // namespace
}  // namespace ultra::mixed_precision

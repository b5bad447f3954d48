// The executable 10_mixed_precision, started as a user starts it.

#include "tests/support/programs/program.hpp"
#include "common/checkpoint/safetensors/safetensors.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::mixed_precision {
namespace {

using nlohmann::json;
using ::testing::ContainsRegex;
using ultra::test::events_of;

class PrecisionProgram : public ultra::test::ProgramTest {
 protected:
  PrecisionProgram() : ProgramTest("10_mixed_precision") {}
};

// Training ----------------------------------------------------------------------------------------

TEST_F(PrecisionProgram, WithoutPrecisionItIsThePreviousChapter) {
  for (const char* flags : {"--steps 3", "--steps 3 --dp 2 --zero 3", "--steps 2 --dtype f64"}) {
    EXPECT_EQ(losses_of(flags), losses_of(std::string(flags) + " --precision fp32"));
  }
}

// What is saved is what the optimizer updates: in f32, whatever the precision. With the largest of the
// scales every step up to the checkpoint is skipped: there are no moments yet.
TEST_F(PrecisionProgram, AResumedTrainingHasTheLossesOfOneThatDidNotStop) {
  int number = 0;
  for (const std::string precision :
       {"bf16", "bf16 --zero 1 --offload optimizer", "bf16 --optimizer-state int8",
        "bf16-pure --rounding stochastic", "bf16 --optimizer-state int8 --optimizer muon",
        "bf16-pure --rounding stochastic --optimizer muon", "fp16 --loss-scale-window 2",
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
  for (const char* flags :
       {"bf16", "bf16-pure --rounding stochastic", "fp16", "fp8", "fp8 --fp8-recipe blockwise",
        "bf16 --optimizer-state int8", "fp16 --optimizer muon"}) {
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

/// The states of a rank, and its activations where no choice of experts decides them.
void expect_recorded(const std::string& table, bool experts) {
  EXPECT_THAT(table, ContainsRegex("\n +0 .* exact .* exact .* exact ")) << table;
  if (experts) return;
  EXPECT_THAT(table, ContainsRegex("\n +0 .* exact .* exact .* exact .* exact "));
}

TEST_F(PrecisionProgram, TheTableFindsTheRecordExact) {
  const std::string model = "--steps 1 --layers 4 --hidden 32 --heads 4 --kv-heads 2 --ffn 48 ";
  const char* const precisions[] = {"bf16", "fp8 --fp8-recipe delayed", "fp16",
                                    "fp8 --fp8-recipe blockwise"};
  std::size_t turn = 0;
  for (const std::string flags : {"", "--recompute full --recompute-every 2", "--dp 2 --zero 1",
                                  "--tp 2 --sp on --recompute selective", "--cp 2 --tp 2",
                                  "--experts 4 --top-k 2", "--experts 4 --shared-experts 2 --tp 2",
                                  "--pp 2 --schedule 1f1b", "--pp 2 --schedule zero-bubble-h1"}) {
    for (int i = 0; i < 2; ++i) {  // one of two bytes, and one of fp8
      const std::string precision = precisions[turn++ % 4];
      SCOPED_TRACE(precision + " " + flags);
      expect_recorded(output_of(model + "--precision " + precision + " " + flags),
                      flags.find("experts") != std::string::npos);
    }
  }
}

// Bad input ---------------------------------------------------------------------------------------

TEST_F(PrecisionProgram, IsRefusedInWords) {
  refused({{"--precision bf16 --dtype f64", {"--dtype f64 does not go together with --precision"}},
           {"--loss-scale 1024 --dp 2 --compress int8", {"--compress does not go together"}},
           {"--formats --on dgx-h100", {"--formats"}}});
}

}  // namespace
}  // namespace ultra::mixed_precision

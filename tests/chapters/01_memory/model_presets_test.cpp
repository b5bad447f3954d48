#include "chapters/01_memory/model_presets.hpp"

#include "chapters/01_memory/memory.hpp"
#include "common/train/cli/run_techniques.hpp"
#include "tests/support/programs/command_line.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::memory {
namespace {

TEST(ModelPresets, AreFoundByNameInAnyCase) {
  for (const TransformerShape& preset : model_presets()) {
    EXPECT_EQ(find_preset(preset.name), preset);
  }
  EXPECT_EQ(find_preset("LLAMA-8B").name, "llama-8b");
  EXPECT_EQ(find_preset("GPT3-175b").name, "gpt3-175b");
}

TEST(ModelPresets, UnknownNameIsAnsweredWithAllNames) {
  const std::string message = test::message_of<ConfigError>([] { (void)find_preset("llama-9b"); });
  EXPECT_THAT(message, HasSubstr("'llama-9b'"));
  for (const char* name : {"gpt2-124m", "llama-1b", "llama-7b", "llama-8b", "llama-70b",
                           "gpt3-175b", "llama-405b", "custom"}) {
    EXPECT_THAT(message, HasSubstr(name));
  }
  EXPECT_EQ(message.find('\n'), std::string::npos) << "one line";
}

TEST(ShapeForEstimate, IsAPresetOrTheModelOfTheFlags) {
  const nn::ModelConfig config;
  EXPECT_EQ(named_or_custom("Llama-70B", config).name, "llama-70b");
  EXPECT_EQ(named_or_custom("custom", config), shape_of(config));
  EXPECT_EQ(named_or_custom("Custom", config), shape_of(config));
}

TEST(ShapeForEstimate, CustomDimensionsMustMakeAModel) {
  nn::ModelConfig config;
  config.num_heads = 5;
  EXPECT_THAT(test::message_of<ConfigError>([&] { (void)named_or_custom("custom", config); }),
              AllOf(HasSubstr("--heads"), HasSubstr("128 % 5 = 3")));
  EXPECT_EQ(named_or_custom("llama-7b", config).name, "llama-7b")
      << "the flags do not matter to a preset";
}

TEST(PrecisionNames, SurviveTheRoundTrip) {
  for (const NumberFormats precision :
       {NumberFormats::kFp64, NumberFormats::kFp32, NumberFormats::kBf16Mixed,
        NumberFormats::kBf16MixedFp32Grads}) {
    EXPECT_EQ(parse_precision(to_string(precision)), precision);
  }
  EXPECT_THAT(test::message_of<ConfigError>([] { (void)parse_precision("fp8"); }),
              AllOf(HasSubstr("'fp8'"), HasSubstr("bf16-mixed-fp32grads")));
}

TEST(PrecisionOf, IsThatOfTheTrainersTypes) {
  EXPECT_EQ(precision_of(DType::kF32), NumberFormats::kFp32);
  EXPECT_EQ(precision_of(DType::kF64), NumberFormats::kFp64);
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    EXPECT_EQ(activation_element_bytes(precision_of(dtype)), size_of(dtype));
  }
  EXPECT_THROW((void)precision_of(DType::kI32), ConfigError);
}

TEST(RecomputeNames, SurviveTheRoundTrip) {
  for (const Recompute mode : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    EXPECT_EQ(parse_recompute(std::string(to_string(mode))), mode);
  }
  EXPECT_THAT(test::message_of<ConfigError>([] { (void)parse_recompute("some"); }),
              AllOf(HasSubstr("'some'"), HasSubstr("selective")));
}

TEST(RecomputeConfigs, GroupsAreForFullRecomputation) {
  RecomputeConfig{}.validate();
  RecomputeConfig{.mode = Recompute::kFull, .recompute_every = 3}.validate();
  const auto message = [](const RecomputeConfig& config) {
    return test::message_of<ConfigError>([&] { config.validate(); });
  };
  EXPECT_THAT(message({.mode = Recompute::kFull, .recompute_every = 0}),
              HasSubstr("--recompute-every is 0"));
  EXPECT_THAT(message({.mode = Recompute::kSelective, .recompute_every = 2}),
              HasSubstr("needs --recompute full"));
}

train::Setup setup_of(const std::string& flags) {
  return train::parse_setup(train::list_of(technique()), test::words_of(flags));
}

// h 8, kv 8, f 16, V 256, L 1, e 4, 2 x 4 tokens:
// parameters 2 V h + (2 h^2 + 2 h kv + 3 h f + 2 h) + h = 4096 + 656 + 8 = 4760;
// activations 4 * 8 tokens * (6 h + 2 kv + 3 f + a + 2 = 116, and 2 h + 1 + V = 273) + 8 * 4.
TEST(Memory, ItsFormulasAreInBytes) {
  const std::string model =
      "--vocab 256 --hidden 8 --layers 1 --heads 2 --kv-heads 2 --ffn 16 --seq 4 --micro-batch 2 "
      "--global-batch 2 ";
  const auto bytes = [&](const std::string& flags) {
    const train::Formulas formulas = setup_of(model + flags).formulas();
    EXPECT_EQ(formulas.size(), 1U);
    EXPECT_EQ(formulas.front().exercise, "01.1");
    return formulas.front().bytes;
  };
  using Bytes = std::array<std::optional<std::size_t>, kNumMemoryCategories>;
  EXPECT_EQ(bytes(""), (Bytes{4 * 4760, 4 * 4760, 8 * 4760, 32 * 389 + 32, {}, {}}));
  EXPECT_EQ(bytes("--dtype f64"), (Bytes{8 * 4760, 8 * 4760, 16 * 4760, 64 * 389 + 32, {}, {}}));
  EXPECT_EQ(bytes("--optimizer sgd"), (Bytes{4 * 4760, 4 * 4760, 4 * 4760, 32 * 389 + 32, {}, {}}));
}

}  // namespace
}  // namespace ultra::memory

// Flags of mixed precision that do not fit each other, or those of other chapters, in words.
//
// Covers: chapters/10_mixed_precision/mixed_precision.hpp

#include "chapters/10_mixed_precision/options/precision_options.hpp"

#include "tests/chapters/10_mixed_precision/precision_run.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::mixed_precision {
namespace {

using namespace mixed_precision::test;

PrecisionOptions options_of(const std::string& flags) {
  return in_precision(flags).setup().find<MixedPrecision>()->options();
}

/// A run that is refused, and what the message says.
struct Refused {
  std::string flags;
  std::vector<std::string> parts;
  Axes axes = {};
};

TEST(PrecisionOptions, WhatDoesNotFitIsSaidInWords) {
  const std::vector<Refused> cases = {
      {"--precision bf17", {"--precision is 'bf17'", "bf16-pure", "fp8"}},
      {"--master-weights off", {"--master-weights", "f32 already", "--precision bf16"}},
      {"--precision bf16 --master-weights maybe", {"--master-weights is 'maybe'", "on", "off"}},
      {"--grad-dtype bf16", {"--grad-dtype bf16", "--precision fp32", "Add --precision bf16"}},
      {"--precision bf16 --grad-dtype f16", {"--grad-dtype f16", "only fp16"}},
      {"--precision fp16 --grad-dtype bf16", {"--grad-dtype bf16", "f32 or f16"}},
      {"--precision bf16 --grad-dtype f64", {"--grad-dtype is 'f64'", "f32, bf16 or f16"}},
      {"--precision bf16-pure --master-weights on", {"--master-weights on", "--grad-dtype bf16"}},
      {"--precision fp16 --loss-scale 0", {"--loss-scale is '0'", "1e-30", "dynamic"}},
      {"--precision fp16 --loss-scale 1e-300", {"--loss-scale is '1e-300'", "1e-30 to 1e+30"}},
      {"--precision bf16 --loss-scale-window 5",
       {"--loss-scale-window has no meaning", "--loss-scale dynamic"}},
      {"--precision fp16 --loss-scale 8 --loss-scale-start 8",
       {"--loss-scale-start has no meaning", "--loss-scale dynamic"}},
      {"--precision fp16 --loss-scale nan", {"--loss-scale is 'nan'"}},
      {"--precision fp16 --loss-scale-window 0", {"--loss-scale-window"}},
      {"--precision fp16 --loss-scale-start 0", {"--loss-scale-start"}},
      {"--fp8-recipe delayed", {"--fp8-recipe", "nothing is in fp8", "--precision fp8"}},
      {"--precision fp8 --fp8-recipe later", {"--fp8-recipe is 'later'", "blockwise"}},
      {"--precision bf16 --rounding stochastic", {"--rounding stochastic", "bf16-pure"}},
      {"--precision fp16 --master-weights off --rounding stochastic", {"--rounding stochastic"}},
      {"--precision bf16 --rounding up", {"--rounding is 'up'", "nearest", "stochastic"}},
      {"--round-sums norms", {"--round-sums", "--precision fp32", "Add --precision bf16"}},
      {"--precision bf16 --round-sums norms,rope", {"'rope'", "norms, loss and softmax"}},
      {"--round-sums softmax", {"--round-sums", "--precision fp32", "Add --precision bf16"}},
      {"--precision bf16 --round-sums loss",
       {"--tp", "--round-sums loss", "vocabulary"},
       {.tp = 2}},
      {"--precision bf16 --round-sums softmax",
       {"--cp", "--round-sums softmax", "keys of a query"},
       {.cp = 2}},
      {"--optimizer-state int4", {"--optimizer-state is 'int4'", "int8"}},
      {"--precision bf16 --compress int8",
       {"--compress", "--precision bf16", "f32 gradients"},
       {.dp = 2}},
      {"--precision bf16 --zero 3 --zero++ weights-int8",
       {"--zero++", "--precision bf16"},
       {.dp = 2}},
      {"--precision bf16 --zero 3 --offload optimizer+params",
       {"--offload optimizer+params", "--offload optimizer"},
       {.dp = 2}},
      {"--optimizer-state int8 --zero 1 --offload optimizer",
       {"--optimizer-state", "--offload", "f32"},
       {.dp = 2}},
      {"--loss-scale dynamic --schedule pipedream-async",
       {"--loss-scale", "pipedream-async", "--loss-scale none"},
       {.pp = 2}},
  };
  for (const Refused& refused : cases) {
    SCOPED_TRACE(refused.flags);
    ultra::test::expect_parts(
        message_of<ConfigError>(
            [&] { static_cast<void>(in_precision(refused.flags, refused.axes).setup()); }),
        refused.parts);
  }
}

TEST(PrecisionOptions, SumsAreRoundedOnTheCpuOnly) {
  MeshCase c = in_precision("--precision bf16 --round-sums norms");
  EXPECT_NO_THROW(static_cast<void>(c.setup()));
  c.options.device = DeviceKind::kEmulated;
  ultra::test::expect_parts(message_of<ConfigError>([&] { static_cast<void>(c.setup()); }),
                            {"--device", "--round-sums"});
}

TEST(PrecisionOptions, RecipesAreTypes) {
  const auto types = [](const std::string& flags) { return options_of(flags).types(); };
  nn::Precision bf16(DType::kBF16);
  EXPECT_EQ(types("--precision bf16-pure"), bf16);
  bf16.gradients = DType::kF32;
  EXPECT_EQ(types("--precision bf16 --master-weights off"), bf16);
  bf16.optimizer = DType::kF32;
  EXPECT_EQ(types("--precision bf16"), bf16);
  EXPECT_EQ(types("--precision fp8"), bf16);
  nn::Precision f16(DType::kF16);
  f16.optimizer = DType::kF32;
  EXPECT_EQ(types("--precision fp16 --grad-dtype f16"), f16);
}

TEST(PrecisionOptions, OnlyFp16ScalesTheLossUnlessItIsAskedFor) {
  EXPECT_EQ(options_of("").scaling(), LossScaling::kNone);
  EXPECT_EQ(options_of("--precision bf16").scaling(), LossScaling::kNone);
  EXPECT_EQ(options_of("--precision fp16").scaling(), LossScaling::kDynamic);
  EXPECT_EQ(options_of("--precision fp16 --loss-scale none").scaling(), LossScaling::kNone);
  EXPECT_EQ(options_of("--precision fp16 --loss-scale 256").scaling(), LossScaling::kConstant);
}

}  // namespace
}  // namespace ultra::mixed_precision

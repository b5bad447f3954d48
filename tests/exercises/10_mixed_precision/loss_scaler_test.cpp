// Contract of exercise 10.3: the dynamic loss scaler.
#include "chapters/10_mixed_precision/loss_scaler.hpp"

#include "tests/support/toolbox.hpp"

namespace ultra::mixed_precision {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

constexpr const char* kOverflow =
    "Hint: an overflow is a norm that is infinite, or NaN: infinity minus infinity is NaN.";
constexpr const char* kNorm =
    "Hint: gradients of the scaled loss are too large by the scale, and so is their norm; clipping "
    "goes by the norm without the scale.";
constexpr const char* kFactor = "Hint: the factor takes the scale out of each gradient.";
constexpr const char* kShrinks = "Hint: after an overflow the scale is multiplied by the back-off.";
constexpr const char* kSkipped =
    "Hint: a step that overflowed was skipped: somebody has to count it, for the learning rate "
    "waits for it.";
constexpr const char* kGrows =
    "Hint: the scale grows after growth_interval steps in a row without overflow, not before.";
constexpr const char* kAnew = "Hint: after each change of the scale, steps are counted anew.";

class LossScaler : public ultra::test::RandomTest {};

TEST_F(LossScaler, InfinityAndNanAreAnOverflow) {
  for (const double norm : {kInfinity, -kInfinity, std::nan("")}) {
    EXPECT_TRUE(unscale(norm, 1024.0).overflow) << kOverflow << " Found none in " << norm;
  }
  for (const double norm : {0.0, 1e-300, 1.0, 65504.0, 1e300}) {
    EXPECT_FALSE(unscale(norm, 1024.0).overflow) << "a finite norm is no overflow: " << norm;
  }
}

TEST_F(LossScaler, NormAndFactorAreWithoutTheScale) {
  for (int i = 0; i < 20; ++i) {
    const double norm = std::ldexp(static_cast<double>(random.between(1, 1000)), -7);
    const double scale = std::ldexp(1.0, static_cast<int>(random.between(0, 24)));
    const UnscaledGradients found = unscale(norm * scale, scale);
    EXPECT_EQ(found.norm, norm) << kNorm;
    EXPECT_EQ(found.factor, 1.0 / scale) << kFactor;
  }
}

TEST_F(LossScaler, AnOverflowShrinksTheScaleAndCountsAsSkipped) {
  const LossScaleRule rule{.backoff = 0.25, .growth_interval = 5};
  const LossScale now{.scale = 4096.0, .good_steps = 3, .skipped = 7};
  const LossScale next = next_loss_scale(now, true, rule);
  EXPECT_EQ(next.scale, 1024.0) << kShrinks;
  EXPECT_EQ(next.good_steps, 0U) << kAnew;
  EXPECT_EQ(next.skipped, 8U) << kSkipped;
}

TEST_F(LossScaler, GoodStepsInARowLetItGrow) {
  for (const std::size_t interval : {std::size_t{1}, random.between(2, 9)}) {
    const LossScaleRule rule{.growth = 8.0, .growth_interval = interval};
    LossScale now{.scale = 16.0, .good_steps = 0, .skipped = 2};
    for (std::size_t step = 1; step < interval; ++step) {
      now = next_loss_scale(now, false, rule);
      EXPECT_EQ(now.scale, 16.0) << kGrows;
      EXPECT_EQ(now.good_steps, step) << kGrows;
    }
    now = next_loss_scale(now, false, rule);
    EXPECT_EQ(now.scale, 128.0) << kGrows;
    EXPECT_EQ(now.good_steps, 0U) << kAnew;
    EXPECT_EQ(now.skipped, 2U) << "Hint: only an overflow skips a step.";
  }
}

}  // namespace
}  // namespace ultra::mixed_precision

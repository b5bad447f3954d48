// Covers: common/optim/clip.hpp

#include "common/optim/schedule.hpp"

#include <numbers>

#include "common/optim/clip.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::optim {
namespace {

/// A few operations on numbers below the peak.
double tolerance(const LearningRateSchedule& schedule) {
  return test::rounding_bound(DType::kF64, 16, schedule.peak);
}

// Ten steps up, thirty on the height, ten down to a fifth.
TEST(LearningRateSchedule, StaysAtThePeakUntilTheDecay) {
  const LearningRateSchedule schedule{
      .peak = 0.5, .warmup_steps = 10, .total_steps = 50, .final_fraction = 0.2, .decay_steps = 10};
  EXPECT_NEAR(schedule.at(5), 0.25, tolerance(schedule));
  for (const std::size_t step : {10U, 11U, 25U, 39U, 40U}) EXPECT_EQ(schedule.at(step), 0.5);
  EXPECT_NEAR(schedule.at(45), 0.3, tolerance(schedule));
  EXPECT_NEAR(schedule.at(50), 0.1, tolerance(schedule));
  EXPECT_NEAR(schedule.at(51), 0.1, tolerance(schedule));
}

class RandomSchedules : public test::RandomTest {};

TEST_F(RandomSchedules, RiseThenFallAndEqualTheClosedForm) {
  for (int i = 0; i < 50; ++i) {
    const LearningRateSchedule schedule{.peak = random.uniform(1e-5, 1.0),
                                        .warmup_steps = random.between(0, 40),
                                        .total_steps = random.between(41, 400),
                                        .final_fraction = random.uniform(0.0, 1.0)};
    const auto warmup = static_cast<long double>(schedule.warmup_steps);
    const auto total = static_cast<long double>(schedule.total_steps);
    for (std::size_t step = 1; step <= schedule.total_steps + 9; ++step) {
      const auto t = std::min(static_cast<long double>(step), total);
      const long double low = schedule.final_fraction;
      const long double cosine =
          std::cos(std::numbers::pi_v<long double> * (t - warmup) / (total - warmup));
      const long double factor =
          t < warmup ? t / warmup : low + (1.0L - low) * (1.0L + cosine) / 2.0L;
      ASSERT_NEAR(schedule.at(step), static_cast<double>(schedule.peak * factor),
                  tolerance(schedule))
          << "step " << step << " of " << schedule.total_steps << ", warm-up "
          << schedule.warmup_steps;
      if (step <= 1) continue;
      const double slope = schedule.at(step) - schedule.at(step - 1);
      const double allowed = tolerance(schedule);
      ASSERT_TRUE(step <= schedule.warmup_steps ? slope > -allowed : slope < allowed);
    }
  }
}

class GlobalNorm : public test::RandomTest {};

TEST_F(GlobalNorm, EqualsAnExtendedPrecisionSum) {
  for (const DType dtype : test::kFloatDTypes) {
    std::vector<Tensor> tensors;
    long double squares = 0.0L;
    std::size_t count = 0;
    for (std::size_t i = random.between(1, 6); i > 0; --i) {
      tensors.push_back(
          random.tensor(device, {random.between(1, 40), random.between(1, 9)}, dtype));
      count += tensors.back().numel();
      for (const double v : tensors.back().to_vector()) {
        squares += static_cast<long double>(v) * static_cast<long double>(v);
      }
    }
    const double expected = static_cast<double>(std::sqrt(squares));
    EXPECT_NEAR(global_norm(tensors), expected,
                test::rounding_bound(DType::kF64, test::count_of(count), expected));
  }
}

TEST(ClipCoefficient, ScalesLargeGradientsToTheLimitAndLeavesSmallOnesAlone) {
  EXPECT_EQ(clip_coefficient(4.0, 1.0), 0.25);
  EXPECT_EQ(clip_coefficient(0.5, 1.0), 1.0);
  EXPECT_EQ(clip_coefficient(1.0, 1.0), 1.0) << "at the limit nothing is to be done";
  EXPECT_EQ(clip_coefficient(0.0, 1.0), 1.0);
}

TEST(ClipCoefficient, ALimitOfZeroIsNoClipping) { EXPECT_EQ(clip_coefficient(1e300, 0.0), 1.0); }

}  // namespace
}  // namespace ultra::optim

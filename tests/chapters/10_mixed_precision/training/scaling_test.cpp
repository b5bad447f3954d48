#include "chapters/10_mixed_precision/training/scaling.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "common/base/errors.hpp"

namespace ultra::mixed_precision {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(DynamicLossScaler, SaysWhatTheGradientsAreAndMovesItsScale) {
  const auto scaler = dynamic_loss_scaler({.initial = 1024, .growth_interval = 2});
  EXPECT_EQ(scaler->scale(), 1024);
  const train::ScaledGradients good = scaler->step_ends(512.0);
  EXPECT_FALSE(good.overflow);
  EXPECT_EQ(good.norm, 0.5);
  EXPECT_EQ(good.factor, 1.0 / 1024);
  EXPECT_TRUE(scaler->step_ends(kInfinity).overflow);
  EXPECT_EQ(scaler->scale(), 512);
  EXPECT_EQ(scaler->skipped(), 1U);
}

TEST(DynamicLossScaler, GoesOnFromItsState) {
  const LossScaleRule rule{.initial = 1024, .growth_interval = 3};
  const auto first = dynamic_loss_scaler(rule);
  for (const double norm : {kInfinity, 1.0, 1.0}) static_cast<void>(first->step_ends(norm));
  const auto second = dynamic_loss_scaler(rule);
  second->restore(first->state());
  static_cast<void>(second->step_ends(1.0));
  EXPECT_EQ(second->scale(), 1024) << "512 doubles after the third good step";
  EXPECT_EQ(second->skipped(), 1U);
}

TEST(DynamicLossScaler, EndsWhenNoScaleHelps) {
  const auto scaler = dynamic_loss_scaler({.initial = 4 * kLeastScale});
  static_cast<void>(scaler->step_ends(kInfinity));
  static_cast<void>(scaler->step_ends(kInfinity));
  try {
    static_cast<void>(scaler->step_ends(kInfinity));
    FAIL() << "nothing was thrown";
  } catch (const NumericError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("overflow even with a loss scale"));
  }
}

TEST(DynamicLossScaler, ADamagedStateIsRefusedInWords) {
  const auto scaler = dynamic_loss_scaler({.initial = 1024});
  for (const std::vector<double>& damaged : std::vector<std::vector<double>>{{},
                                                                             {1024, 0},
                                                                             {0, 0, 0},
                                                                             {-8, 0, 0},
                                                                             {kInfinity, 0, 0},
                                                                             {std::nan(""), 0, 0},
                                                                             {8, 0.5, 0},
                                                                             {8, 0, -1},
                                                                             {8, 0, 1e300}}) {
    try {
      scaler->restore(damaged);
      FAIL() << "nothing was thrown";
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("the checkpoint's loss scale is ["));
    }
  }
  EXPECT_EQ(scaler->scale(), 1024);
}

TEST(ConstantLossScaler, StaysAndSkips) {
  const auto scaler = constant_loss_scaler(8);
  EXPECT_TRUE(scaler->step_ends(kInfinity).overflow);
  EXPECT_EQ(scaler->scale(), 8);
  EXPECT_EQ(scaler->step_ends(16.0).norm, 2.0);
  EXPECT_EQ(scaler->skipped(), 1U);
  const auto next = constant_loss_scaler(8);
  next->restore(scaler->state());
  EXPECT_EQ(next->skipped(), 1U);
}

TEST(ConstantLossScaler, EndsWhenEveryStepOverflows) {
  const auto scaler = constant_loss_scaler(1e30);
  EXPECT_THROW(
      {
        for (int step = 0; step < 1000; ++step) static_cast<void>(scaler->step_ends(kInfinity));
      },
      NumericError);
}

}  // namespace
}  // namespace ultra::mixed_precision

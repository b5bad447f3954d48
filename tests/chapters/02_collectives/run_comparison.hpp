#pragma once
/// @file
/// How near two training runs are to each other.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "tests/chapters/02_collectives/replicated_run.hpp"
#include "tests/support/compare.hpp"

namespace ultra::collectives::test {

/// @brief Losses within a relative distance.
inline void expect_near_losses(const RankRun& actual, const RankRun& expected, double relative) {
  ASSERT_EQ(actual.result.steps.size(), expected.result.steps.size());
  for (std::size_t i = 0; i < expected.result.steps.size(); ++i) {
    const double loss = expected.result.steps[i].loss;
    EXPECT_NEAR(actual.result.steps[i].loss, loss, relative * loss) << "step " << i + 1;
  }
}

/// @brief Gradient norms within a relative distance: ranks add the squares of their parts up.
inline void expect_near_norms(const RankRun& actual, const RankRun& expected, double relative) {
  ASSERT_EQ(actual.result.steps.size(), expected.result.steps.size());
  for (std::size_t i = 0; i < expected.result.steps.size(); ++i) {
    const double norm = expected.result.steps[i].grad_norm;
    if (actual.result.steps[i].grad_norm == norm) continue;  // both may be infinite
    EXPECT_NEAR(actual.result.steps[i].grad_norm, norm, relative * norm) << "step " << i + 1;
  }
}

/// @brief Weights within a relative distance of each parameter's largest.
inline void expect_near_weights(const RankRun& actual, const RankRun& expected, double relative) {
  ASSERT_EQ(actual.weights.size(), expected.weights.size());
  for (std::size_t p = 0; p < expected.weights.size(); ++p) {
    double worst = 0;
    for (std::size_t i = 0; i < expected.weights[p].size(); ++i) {
      worst = std::max(worst, std::abs(actual.weights[p][i] - expected.weights[p][i]));
    }
    EXPECT_LE(worst, relative * ultra::test::largest_magnitude(expected.weights[p]))
        << "parameter " << p;
  }
}

/// @brief Loss and gradient norm of each step, one after the other.
inline std::vector<double> losses_and_norms(const train::TrainResult& result) {
  std::vector<double> numbers;
  for (const train::StepMetrics& step : result.steps) {
    numbers.push_back(step.loss);
    numbers.push_back(step.grad_norm);
  }
  return numbers;
}

}  // namespace ultra::collectives::test

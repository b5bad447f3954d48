#include "common/nn/initialization.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "common/ops/elementwise.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/model.hpp"

namespace ultra::nn {
namespace {

class InitializationTest : public test::RandomTest {};

TEST_F(InitializationTest, ResidualProjectionsShrinkWithTheDepth) {
  EXPECT_DOUBLE_EQ(residual_deviation({.num_layers = 2}), 0.01);
  EXPECT_DOUBLE_EQ(residual_deviation({.num_layers = 8}), 0.005);
}

TEST_F(InitializationTest, AModelsWeightsHaveTheDeviationsThatAreStated) {
  const ModelConfig config{.hidden_size = 64, .num_layers = 3, .ffn_hidden_size = 96};
  DenseFactory factory;
  const Model model(config, device, DType::kF32, seed, factory);
  for (const Parameter* p : model.parameters()) {
    const double count = test::count_of(p->value().numel());
    const double mean_square = ops::sum_of_squares(p->value()) / count;
    const std::string& name = p->name();
    if (name.find("norm") != std::string::npos) {
      EXPECT_EQ(mean_square, 1.0) << name;
      continue;
    }
    const bool residual =
        name.find("o_proj") != std::string::npos || name.find("down_proj") != std::string::npos;
    const double variance = residual ? 4e-4 / 6.0 : 4e-4;
    // Six standard errors of the mean of squares of normal numbers.
    EXPECT_NEAR(mean_square, variance, 6.0 * variance * std::sqrt(2.0 / count)) << name;
  }
}

}  // namespace
}  // namespace ultra::nn

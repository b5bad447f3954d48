// Covers: common/optim/rules.hpp, common/optim/update_rule.hpp

#include "common/optim/sgd.hpp"

#include "common/optim/optimizer.hpp"
#include "common/optim/rules.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::optim {
namespace {

class SgdTest : public test::RandomTest {};

// Step t adds (1 - mu^t) / (1 - mu) gradients to the weight: those of the steps so far, each mu
// times as much as in the step before.
TEST_F(SgdTest, AConstantGradientGrowsToOneOverOneMinusMomentum) {
  constexpr int kSteps = 20;
  for (const DType dtype : test::kFloatDTypes) {
    const double mu = random.uniform(0.0, 0.95);
    const double rate = random.uniform(1e-3, 1e-1);
    const double scale = random.uniform(0.1, 1.0);
    const Shape shape{random.between(1, 9), random.between(1, 9)};
    const TensorUpdate update{.value = random.tensor(device, shape, dtype),
                              .grad = random.tensor(device, shape, dtype),
                              .decay = false};
    const std::vector<double> start = update.value.to_vector();
    const std::vector<double> gradient = update.grad.to_vector();
    Optimizer optimizer(sgd({.momentum = mu}));
    double gradients = 0;
    for (int t = 1; t <= kSteps; ++t) {
      optimizer.step({&update, 1}, rate, scale);
      gradients += (1 - std::pow(mu, t)) / (1 - mu);
    }
    std::vector<double> expected = start;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expected[i] -= rate * scale * gradients * gradient[i];
    }
    const double largest = test::largest_magnitude(expected) + test::largest_magnitude(gradient);
    EXPECT_TRUE(test::all_near(update.value, expected,
                               test::rounding_bound(dtype, 8 * kSteps, 20 * largest)))
        << to_string(dtype);
    EXPECT_EQ(update.grad.to_vector(), gradient) << "the gradient is read";
  }
}

TEST_F(SgdTest, DecaysOnlyWhereAsked) {
  const Tensor weights = random.tensor(device, {4, 4}, DType::kF64);
  const Tensor norms = random.tensor(device, {4}, DType::kF64);
  const std::vector<TensorUpdate> updates = {
      {.value = weights, .grad = Tensor::zeros(device, {4, 4}, DType::kF64), .decay = true},
      {.value = norms, .grad = Tensor::zeros(device, {4}, DType::kF64), .decay = false}};
  std::vector<double> decayed = weights.to_vector();
  for (double& w : decayed) w *= 1 - 0.01 * 0.3;
  const std::vector<double> untouched = norms.to_vector();
  Optimizer optimizer(sgd({.weight_decay = 0.3}));
  optimizer.step(updates, 0.01, 1.0);
  EXPECT_TRUE(test::all_near(weights, decayed, test::rounding_bound(DType::kF64, 4, 2)));
  EXPECT_EQ(norms.to_vector(), untouched);
}

TEST_F(SgdTest, KeepsOneNumberOfEachWeightWhereAdamWKeepsTwo) {
  EXPECT_EQ(states_per_weight("sgd", WeightKind::kOther), 1U);
  EXPECT_EQ(states_per_weight("adamw", WeightKind::kOther), 2U);
  for (const std::string& name : rule_names()) {
    const TensorUpdate update{.value = random.tensor(device, {30}, DType::kF32),
                              .grad = random.tensor(device, {30}, DType::kF32),
                              .decay = true};
    Optimizer optimizer(make_rule(name));
    optimizer.step({&update, 1}, 1e-3, 1.0);
    EXPECT_EQ(device.memory().current()[MemoryCategory::kOptimizer],
              4 * 30 * states_per_weight(name, WeightKind::kOther))
        << name;
  }
}

}  // namespace
}  // namespace ultra::optim

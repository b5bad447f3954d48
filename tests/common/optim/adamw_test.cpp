// Covers: common/optim/optimizer.hpp, common/optim/state_store.hpp

#include "common/optim/adamw.hpp"
#include "common/optim/optimizer.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::optim {
namespace {

class AdamWTest : public test::RandomTest {
 protected:
  TensorUpdate update_of(const Shape& shape, bool decay, DType dtype = DType::kF64) {
    return {.value = random.tensor(device, shape, dtype),
            .grad = random.tensor(device, shape, dtype),
            .decay = decay};
  }
};

TEST_F(AdamWTest, DecaysOnlyWhereAsked) {
  const double wd = 0.3;
  const double lr = 0.01;
  const std::vector<TensorUpdate> updates = {update_of({4, 4}, true), update_of({4}, false)};
  for (const TensorUpdate& u : updates) u.grad.fill(0.0);
  std::vector<double> decayed = updates[0].value.to_vector();
  const std::vector<double> untouched = updates[1].value.to_vector();
  Optimizer optimizer(adamw({.weight_decay = wd}));
  optimizer.step(updates, lr, 1.0);
  for (double& v : decayed) v *= 1.0 - lr * wd;
  EXPECT_TRUE(
      test::all_near(updates[0].value, decayed,
                     test::rounding_bound(DType::kF64, 4, test::largest_magnitude(decayed))));
  EXPECT_TRUE(test::all_equal(updates[1].value, untouched)) << "norm weights are left alone";
}

TEST_F(AdamWTest, RefusesOtherTensorsThanThoseOfTheFirstStep) {
  const auto nothing = [](const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                          const ops::AdamWStep&) {};
  std::vector<TensorUpdate> updates = {update_of({3, 2}, true), update_of({4}, false)};
  Optimizer optimizer(adamw({}, nothing));
  optimizer.step(updates, 1e-3, 1.0);

  std::vector<TensorUpdate> fewer = {updates[0]};
  EXPECT_THAT(test::message_of<ShapeError>([&] { optimizer.step(fewer, 1e-3, 1.0); }),
              AllOf(HasSubstr("states of 2 tensors"), HasSubstr("found 1")));
  std::swap(updates[0], updates[1]);
  EXPECT_THAT(test::message_of<ShapeError>([&] { optimizer.step(updates, 1e-3, 1.0); }),
              AllOf(HasSubstr("tensor 0"), HasSubstr("[4]"), HasSubstr("[3, 2]")));
  EXPECT_EQ(optimizer.steps(), 1) << "a refused step is no step";
}

/// Loshchilov & Hutter 2019, arXiv 1711.05101, alg. 2, line by line, for one weight.
struct ScalarAdamW {
  long double m = 0.0L;
  long double v = 0.0L;
  long double largest_gradient = 0.0L;

  long double step(long double weight, long double gradient, int t, double lr, double decay,
                   const AdamWConfig& config) {
    const long double b1 = config.beta1;
    const long double b2 = config.beta2;
    m = b1 * m + (1.0L - b1) * gradient;
    v = b2 * v + (1.0L - b2) * gradient * gradient;
    const long double m_hat = m / (1.0L - std::pow(b1, static_cast<long double>(t)));
    const long double v_hat = v / (1.0L - std::pow(b2, static_cast<long double>(t)));
    largest_gradient = std::max(largest_gradient, std::abs(gradient));
    return weight - lr * (m_hat / (std::sqrt(v_hat) + config.epsilon) + decay * weight);
  }
};

// A step's direction m_hat / sqrt(v_hat) has error (error of m_hat) / sqrt(v_hat), relative to the
// largest gradient G so far; sqrt(v_hat) >= sqrt((1 - beta2) beta2^t) G. 1 - beta has the relative
// error eps / (1 - beta) when beta is rounded, and each step adds a few roundings.
TEST_F(AdamWTest, EqualsTheAlgorithmInExtendedPrecision) {
  constexpr int kSteps = 12;
  for (const DType dtype : test::kFloatDTypes) {
    const AdamWConfig config{.beta1 = random.uniform(0.5, 0.95),
                             .beta2 = random.uniform(0.8, 0.98),
                             .weight_decay = random.uniform(0.0, 0.3)};
    const bool decay = random.between(0, 1) == 1;
    const TensorUpdate update = update_of({random.between(1, 60)}, decay, dtype);
    std::vector<double> expected = update.value.to_vector();
    std::vector<double> tolerances(expected.size(), 0.0);
    std::vector<ScalarAdamW> scalars(expected.size());
    std::vector<long double> weights(expected.begin(), expected.end());
    Optimizer optimizer(adamw(config));
    for (int t = 1; t <= kSteps; ++t) {
      const double lr = random.uniform(1e-4, 1e-1);
      const double scale = random.uniform(0.1, 1.0);
      random.fill(update.grad, 2.0);
      optimizer.step(std::vector<TensorUpdate>{update}, lr, scale);
      const std::vector<double> grads = update.grad.to_vector();
      const double roundings = 8.0 * t / (1.0 - std::max(config.beta1, config.beta2));
      for (std::size_t i = 0; i < weights.size(); ++i) {
        weights[i] = scalars[i].step(weights[i], static_cast<long double>(scale) * grads[i], t, lr,
                                     decay ? config.weight_decay : 0.0, config);
        const double worst = 1.0 / std::sqrt((1.0 - config.beta2) * std::pow(config.beta2, t));
        tolerances[i] += test::rounding_bound(dtype, roundings, lr * worst) +
                         test::rounding_bound(dtype, 4, std::abs(static_cast<double>(weights[i])));
        expected[i] = static_cast<double>(weights[i]);
      }
    }
    EXPECT_TRUE(test::all_near(update.value, expected, tolerances)) << to_string(dtype);
  }
}

TEST_F(AdamWTest, CannotGoOnFromAnotherRunAfterStepsOfItsOwn) {
  const std::vector<TensorUpdate> updates = {update_of({3}, false)};
  Optimizer optimizer(adamw());
  optimizer.step(updates, 1e-2, 1.0);
  const std::vector<Tensor> values = {updates[0].value};
  EXPECT_THROW(optimizer.resume(3, values), InternalError);
}

}  // namespace
}  // namespace ultra::optim

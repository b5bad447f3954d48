// Covers: common/optim/optimizer.hpp, common/optim/state_store.hpp

#include "common/optim/adamw.hpp"
#include "common/optim/optimizer.hpp"
#include "common/optim/schedule.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::optim {
namespace {

std::size_t optimizer_bytes(const Device& device) {
  return device.memory().current()[MemoryCategory::kOptimizer];
}

class AdamWTest : public test::RandomTest {
 protected:
  TensorUpdate update_of(const Shape& shape, bool decay, DType dtype = DType::kF64) {
    return {.value = random.tensor(device, shape, dtype),
            .grad = random.tensor(device, shape, dtype),
            .decay = decay};
  }
};

TEST_F(AdamWTest, TakesMemoryForTwoMomentsAtTheFirstStepOnly) {
  for (const DType dtype : test::kFloatDTypes) {
    const std::vector<TensorUpdate> updates = {update_of({7, 3}, true, dtype),
                                               update_of({5}, false, dtype)};
    Optimizer optimizer(adamw());
    EXPECT_EQ(optimizer_bytes(device), 0U) << "a model that has not stepped has no moments yet";
    EXPECT_EQ(optimizer.steps(), 0);
    for (int step = 1; step <= 3; ++step) {
      optimizer.step(updates, 1e-3, 1.0);
      EXPECT_EQ(optimizer_bytes(device), 2 * (7 * 3 + 5) * size_of(dtype)) << "step " << step;
      EXPECT_EQ(optimizer.steps(), step);
    }
  }
  EXPECT_EQ(optimizer_bytes(device), 0U) << "the moments live as long as the optimizer";
}

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

/// One call of an injected update.
struct Call {
  const void* value;
  const void* grad;
  const void* first;
  const void* second;
  ops::AdamWStep constants;
};

TEST_F(AdamWTest, CallsTheInjectedUpdatePerTensorWithItsOwnMoments) {
  std::vector<Call> calls;
  const AdamWConfig config{.beta1 = 0.8, .beta2 = 0.9, .epsilon = 1e-6, .weight_decay = 0.2};
  Optimizer optimizer(
      adamw(config, [&](const Tensor& value, const Tensor& grad, const Tensor& first,
                        const Tensor& second, const ops::AdamWStep& constants) {
        calls.push_back({value.data<double>(), grad.data<double>(), first.data<double>(),
                         second.data<double>(), constants});
        if (constants.step == 1) {
          EXPECT_TRUE(test::all_equal(first, std::vector<double>(value.numel(), 0.0)));
          EXPECT_TRUE(test::all_equal(second, std::vector<double>(value.numel(), 0.0)));
        }
      }));
  const std::vector<TensorUpdate> updates = {update_of({3, 2}, true), update_of({6}, false),
                                             update_of({2, 2}, true)};
  optimizer.step(updates, 0.5, 0.25);
  optimizer.step(updates, 0.4, 1.0);

  ASSERT_EQ(calls.size(), 6U);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const Call& call = calls[i];
    const TensorUpdate& u = updates[i % 3];
    EXPECT_EQ(call.value, u.value.data<double>()) << "in the order given";
    EXPECT_EQ(call.grad, u.grad.data<double>());
    EXPECT_EQ(call.constants.step, i < 3 ? 1 : 2);
    EXPECT_EQ(call.constants.learning_rate, i < 3 ? 0.5 : 0.4);
    EXPECT_EQ(call.constants.gradient_scale, i < 3 ? 0.25 : 1.0);
    EXPECT_EQ(call.constants.weight_decay, u.decay ? 0.2 : 0.0);
    EXPECT_EQ(call.constants.beta1, 0.8);
    EXPECT_EQ(call.constants.beta2, 0.9);
    EXPECT_EQ(call.constants.epsilon, 1e-6);
    EXPECT_EQ(call.first, calls[i % 3].first) << "the same moments at every step";
    EXPECT_EQ(call.second, calls[i % 3].second);
    EXPECT_NE(call.first, call.second);
  }
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

TEST_F(AdamWTest, GoesOnFromTheMomentsOfAnEarlierRun) {
  for (const DType dtype : test::kFloatDTypes) {
    const std::vector<TensorUpdate> whole_run = {update_of({7, 3}, true, dtype),
                                                 update_of({5}, false, dtype)};
    std::vector<TensorUpdate> continued;
    std::vector<Tensor> values;
    for (const TensorUpdate& u : whole_run) {
      continued.push_back({.value = u.value.clone(), .grad = u.grad, .decay = u.decay});
      values.push_back(continued.back().value);
    }
    Optimizer uninterrupted(adamw());
    for (int step = 0; step < 5; ++step) uninterrupted.step(whole_run, 1e-2, 0.5);

    Optimizer before(adamw());
    for (int step = 0; step < 3; ++step) before.step(continued, 1e-2, 0.5);
    Optimizer after(adamw());
    after.resume(before.steps(), values);
    ASSERT_EQ(after.store().size(), 2U);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::vector<Tensor> copy = {values[i].clone(), values[i].clone()};
      before.store().read(i, copy);
      after.store().write(i, copy);
    }
    for (int step = 0; step < 2; ++step) after.step(continued, 1e-2, 0.5);
    EXPECT_EQ(after.steps(), 5);
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(values[i].to_vector(), whole_run[i].value.to_vector()) << "tensor " << i;
    }
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

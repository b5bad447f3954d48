#include "chapters/01_memory/adamw_step.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra {
namespace {

/// Which rule the transcription follows: PyTorch's, or one with a typical mistake.
enum class Rule {
  kPyTorch,
  kNoBiasCorrection,
  kCoupledDecay,
  kDecayWithoutLearningRate,  // the paper's line as it stands, with a schedule multiplier of 1
  kEpsilonInsideRoot,
};

/// One weight's state, updated as PyTorch's documentation writes it, in extended precision.
struct Weight {
  long double value = 0;
  long double m = 0;
  long double v = 0;

  void step(long double grad, const ops::AdamWStep& c, Rule rule) {
    long double g = grad * static_cast<long double>(c.gradient_scale);
    const long double decay = static_cast<long double>(c.weight_decay) * value;
    if (rule == Rule::kCoupledDecay) g += decay;
    m = static_cast<long double>(c.beta1) * m + (1 - static_cast<long double>(c.beta1)) * g;
    v = static_cast<long double>(c.beta2) * v + (1 - static_cast<long double>(c.beta2)) * g * g;
    const bool corrected = rule != Rule::kNoBiasCorrection;
    const long double m_hat =
        corrected ? m / (1 - std::pow(static_cast<long double>(c.beta1), c.step)) : m;
    const long double v_hat =
        corrected ? v / (1 - std::pow(static_cast<long double>(c.beta2), c.step)) : v;
    const long double epsilon = static_cast<long double>(c.epsilon);
    const long double denominator =
        rule == Rule::kEpsilonInsideRoot ? std::sqrt(v_hat + epsilon) : std::sqrt(v_hat) + epsilon;
    const long double rate = static_cast<long double>(c.learning_rate);
    value -= rate * m_hat / denominator;
    if (rule == Rule::kCoupledDecay) return;
    value -= (rule == Rule::kDecayWithoutLearningRate ? 1 : rate) * decay;
  }
};

template <class T>
struct Problem {
  std::vector<T> value, m, v;
  std::vector<std::vector<T>> grads;
  ops::AdamWStep constants{.learning_rate = 0.01, .epsilon = 1e-3, .gradient_scale = 0.5};
};

constexpr int kSteps = 10;

template <class T>
Problem<T> random_problem(test::Random& random) {
  const std::size_t n = random.between(1, 50);
  Problem<T> p;
  p.m.assign(n, T(0));
  p.v.assign(n, T(0));
  for (std::size_t i = 0; i < n; ++i) p.value.push_back(static_cast<T>(random.normal()));
  for (int step = 0; step < kSteps; ++step) {
    std::vector<T>& grad = p.grads.emplace_back();
    for (std::size_t i = 0; i < n; ++i) grad.push_back(static_cast<T>(random.normal()));
  }
  return p;
}

template <class T>
std::vector<double> expected_values(Problem<T> p, Rule rule) {
  std::vector<double> values;
  for (std::size_t i = 0; i < p.value.size(); ++i) {
    Weight weight{.value = static_cast<long double>(p.value[i])};
    for (int step = 1; step <= kSteps; ++step) {
      p.constants.step = step;
      weight.step(static_cast<long double>(p.grads[static_cast<std::size_t>(step - 1)][i]),
                  p.constants, rule);
    }
    values.push_back(static_cast<double>(weight.value));
  }
  return values;
}

template <class T>
std::vector<double> actual_values(Problem<T> p) {
  for (int step = 1; step <= kSteps; ++step) {
    p.constants.step = step;
    memory::adamw_step<T>(p.value, p.grads[static_cast<std::size_t>(step - 1)], p.m, p.v,
                          p.constants);
  }
  return {p.value.begin(), p.value.end()};
}

template <class T>
void expect_update(test::Random& random) {
  const Problem<T> problem = random_problem<T>(random);
  const std::vector<double> actual = actual_values(problem);
  // About 15 operations per step on numbers below 10.
  const double tolerance = rounding_bound(dtype_of<T>(), 15.0 * kSteps, 10.0);
  const auto follows = [&](Rule rule) {
    return test::largest_difference(actual, expected_values(problem, rule)) <= tolerance;
  };
  const char* hint =
      follows(Rule::kNoBiasCorrection) ? "Hint: m and v start at 0 and are too small in the first "
                                         "steps: divide them by 1 - beta^step."
      : follows(Rule::kCoupledDecay)
          ? "Hint: this is Adam with L2 regularisation. AdamW's decay is decoupled: it acts on the "
            "weight and never enters the moments."
      : follows(Rule::kDecayWithoutLearningRate)
          ? "Hint: the weight decays by weight_decay * value, whatever the learning rate. So it "
            "stands in the paper; PyTorch's and ours is learning_rate * weight_decay * value."
      : follows(Rule::kEpsilonInsideRoot)
          ? "Hint: epsilon is added to the root of v_hat, not under it."
          : "";
  EXPECT_LE(test::largest_difference(actual, expected_values(problem, Rule::kPyTorch)), tolerance)
      << hint;
}

class AdamWStep : public test::RandomTest {};

TEST_F(AdamWStep, FollowsPyTorch) {
  expect_update<double>(random);
  expect_update<float>(random);
}

TEST_F(AdamWStep, DecaysByTheLearningRateTimesTheWeightDecay) {
  // Without a gradient nothing else moves the weight: 8 - 0.5 * 0.25 * 8.
  std::vector<double> value = {8}, m = {0}, v = {0};
  const std::vector<double> grad = {0};
  memory::adamw_step<double>(value, grad, m, v, {.learning_rate = 0.5, .weight_decay = 0.25});
  EXPECT_DOUBLE_EQ(value[0], 7.0) << (value[0] == 6.0 ? "Hint: the decay lacks the learning rate."
                                                      : "");
}

}  // namespace
}  // namespace ultra

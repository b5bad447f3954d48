// Contract of exercise 08.5: from the gradient of the outputs to that of the affinities.
#include "chapters/08_expert_parallel/combine_weights.hpp"

#include "tests/support/toolbox.hpp"
#include "tests/support/training/finite_difference.hpp"

namespace ultra::expert_parallel {
namespace {

constexpr const char* kGradient =
    "Hint: a weight's gradient is the product of its row with the gradient of its token, and "
    "stands at the number of its choice; an affinity is in its own weight, and in the sum that "
    "divides all of them.";
constexpr const char* kOne = "Hint: a single choice's weight is the affinity itself.";
constexpr const char* kDroppedHint =
    "Hint: a choice without a row has a weight whose gradient is zero, but its affinity is in the "
    "sum.";
constexpr const char* kZero = "Hint: experts that were not chosen have no part in the output.";

class CombineWeights : public ultra::test::RandomTest {
 protected:
  struct Case {
    std::size_t tokens, experts, top_k, features;
    Tensor affinities, destinations, rows, d_y;
    Routing routing;
    ExpertOrder order;
  };

  /// Fixed choices: the first ones after a random expert, so that affinities can move freely; at
  /// least `spare` experts of each token are left over.
  Case draw(std::size_t top_k, bool drops, DType dtype = DType::kF64, std::size_t spare = 0) {
    Case c{.tokens = random.between(1, 5),
           .experts = top_k + random.between(spare, 3),
           .top_k = top_k,
           .features = random.between(1, 4),
           .affinities = {},
           .destinations = {},
           .rows = {},
           .d_y = {},
           .routing = {},
           .order = {}};
    c.affinities = Tensor::empty(device, {c.tokens, c.experts}, dtype);
    dispatch_float(dtype, [&]<class T>() {
      for (T& a : c.affinities.span<T>()) a = static_cast<T>(random.uniform(0.2, 1.0));
    });
    c.routing.experts = Tensor::empty(device, {c.tokens, top_k}, DType::kI32);
    for (std::size_t t = 0; t < c.tokens; ++t) {
      const std::size_t first = random.between(0, c.experts - 1);
      for (std::size_t k = 0; k < top_k; ++k) {
        c.routing.experts.data<std::int32_t>()[t * top_k + k] =
            static_cast<std::int32_t>((first + k) % c.experts);
      }
    }
    c.routing.weights = weights(c);
    c.destinations = c.routing.experts.clone();
    if (drops) {
      for (std::int32_t& expert : c.destinations.span<std::int32_t>()) {
        if (random.between(0, 2) == 0) expert = kDropped;
      }
    }
    c.order = expert_order(c.destinations, c.experts);
    c.rows = random.tensor(device, {c.order.rows(), c.features}, dtype);
    c.d_y = random.tensor(device, {c.tokens, c.features}, dtype);
    return c;
  }

  /// The weights of the fixed choices.
  [[nodiscard]] Tensor weights(const Case& c) const {
    Tensor w = Tensor::empty(device, {c.tokens, c.top_k}, c.affinities.dtype());
    dispatch_float(w.dtype(), [&]<class T>() {
      for (std::size_t t = 0; t < c.tokens; ++t) {
        const std::int32_t* experts = c.routing.experts.data<std::int32_t>() + t * c.top_k;
        const T* a = c.affinities.data<T>() + t * c.experts;
        T sum = 0;
        for (std::size_t k = 0; k < c.top_k; ++k) sum += a[experts[k]];
        for (std::size_t k = 0; k < c.top_k; ++k) {
          w.data<T>()[t * c.top_k + k] = c.top_k == 1 ? a[experts[k]] : a[experts[k]] / sum;
        }
      }
    });
    return w;
  }

  void expect_finite_differences(const Case& c, const char* hint) {
    const Tensor d_a = combine_weights_backward(c.d_y, c.rows, c.order, c.routing, c.affinities);
    ASSERT_EQ(d_a.shape(), c.affinities.shape());
    const auto objective = [&] {
      return ultra::test::inner_product(from_expert_order(c.rows, weights(c), c.order), c.d_y);
    };
    EXPECT_TRUE(
        ultra::test::gradients_match(random, objective, {{"affinities", c.affinities, d_a}}))
        << hint;
  }
};

TEST_F(CombineWeights, FollowsFiniteDifferences) {
  for (int round = 0; round < 8; ++round) {
    expect_finite_differences(draw(random.between(2, 4), false), kGradient);
    expect_finite_differences(draw(1, false), kOne);
    expect_finite_differences(draw(random.between(1, 4), true), kDroppedHint);
  }
}

TEST_F(CombineWeights, ExpertsThatWereNotChosenGetExactlyNothing) {
  for (const DType dtype : ultra::test::kFloatDTypes) {
    const Case c = draw(2, false, dtype, 1);
    const std::vector<double> d_a =
        combine_weights_backward(c.d_y, c.rows, c.order, c.routing, c.affinities).to_vector();
    for (std::size_t t = 0; t < c.tokens; ++t) {
      for (std::size_t e = 0; e < c.experts; ++e) {
        const std::int32_t* experts = c.routing.experts.data<std::int32_t>() + t * 2;
        const auto number = static_cast<std::int32_t>(e);
        if (experts[0] == number || experts[1] == number) continue;
        EXPECT_EQ(d_a[t * c.experts + e], 0.0) << kZero;
      }
    }
  }
}

}  // namespace
}  // namespace ultra::expert_parallel

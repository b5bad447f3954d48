// Contract of exercise 08.2: rows by expert, and sums of rows.
#include "chapters/08_expert_parallel/token_permutation.hpp"

#include "tests/support/ranks/on_ranks.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::expert_parallel {
namespace {

constexpr const char* kOrder =
    "Hint: all rows of expert 0 come first, then those of expert 1; the rows of an expert in the "
    "order of the tokens.";
constexpr const char* kNothing = "Hint: a destination of kDropped has no row.";
constexpr const char* kToken = "Hint: the token of a choice is its number divided by top_k.";
constexpr const char* kWeight = "Hint: a row's weight stands at the number of its choice.";
constexpr const char* kBack =
    "Hint: each row goes back to the token that it came from; several rows may belong to one "
    "token: they are added up.";
constexpr const char* kZeros = "Hint: a token without a row is zeros.";

class TokenPermutation : public ultra::test::RandomTest {
 protected:
  struct Case {
    std::size_t tokens, top_k, experts, features;
    Tensor destinations;
  };
  /// Experts of each token differ; some choices go nowhere, and some experts have no row.
  Case draw() {
    Case c{.tokens = random.between(1, 9),
           .top_k = random.between(1, 3),
           .experts = random.between(3, 7),
           .features = random.between(1, 5),
           .destinations = {}};
    c.destinations = Tensor::empty(device, {c.tokens, c.top_k}, DType::kI32);
    for (std::size_t t = 0; t < c.tokens; ++t) {
      const std::size_t first = random.between(0, c.experts - 1);
      for (std::size_t k = 0; k < c.top_k; ++k) {
        c.destinations.data<std::int32_t>()[t * c.top_k + k] =
            random.between(0, 3) == 0 ? kDropped
                                      : static_cast<std::int32_t>((first + k) % c.experts);
      }
    }
    return c;
  }
};

TEST_F(TokenPermutation, RowsStandByExpertInTheOrderOfTheTokens) {
  for (int round = 0; round < 30; ++round) {
    const Case c = draw();
    const ExpertOrder order = expert_order(c.destinations, c.experts);
    std::vector<std::size_t> expected;
    std::vector<std::size_t> counts(c.experts, 0);
    for (std::size_t e = 0; e < c.experts; ++e) {
      for (std::size_t choice = 0; choice < c.tokens * c.top_k; ++choice) {
        if (c.destinations.data<std::int32_t>()[choice] != static_cast<std::int32_t>(e)) continue;
        expected.push_back(choice);
        ++counts[e];
      }
    }
    EXPECT_EQ(order.rows_per_expert, counts) << kNothing;
    EXPECT_EQ(order.choices, expected) << kOrder;
    EXPECT_EQ(order.tokens, c.tokens);
    EXPECT_EQ(order.top_k, c.top_k);
  }
}

TEST_F(TokenPermutation, RowsAreTokensAndTokensAreSumsOfRows) {
  for (const DType dtype : ultra::test::kFloatDTypes) {
    for (int round = 0; round < 10; ++round) {
      const Case c = draw();
      const ExpertOrder order = expert_order(c.destinations, c.experts);
      const Tensor x = random.tensor(device, {c.tokens, c.features}, dtype);
      const Tensor rows = random.tensor(device, {order.rows(), c.features}, dtype);
      const Tensor weights = random.tensor(device, {c.tokens, c.top_k}, dtype);
      for (const bool weighted : {false, true}) {
        const Tensor used = weighted ? weights : Tensor();
        const auto weight = [&](std::size_t choice) {
          return weighted ? weights.to_vector()[choice] : 1.0;
        };
        std::vector<double> permuted;
        std::vector<double> summed(c.tokens * c.features, 0.0);
        for (std::size_t r = 0; r < order.rows(); ++r) {
          const std::size_t token = order.choices[r] / c.top_k;
          for (std::size_t i = 0; i < c.features; ++i) {
            permuted.push_back(weight(order.choices[r]) * x.to_vector()[token * c.features + i]);
            summed[token * c.features + i] +=
                weight(order.choices[r]) * rows.to_vector()[r * c.features + i];
          }
        }
        const double tolerance = ultra::test::rounding_bound(dtype, 10, 30);
        const Tensor out = to_expert_order(x, used, order);
        ASSERT_EQ(out.shape(), (Shape{order.rows(), c.features}));
        EXPECT_TRUE(ultra::test::all_near(out, permuted, tolerance))
            << (weighted ? kWeight : kToken);
        const Tensor back = from_expert_order(rows, used, order);
        ASSERT_EQ(back.shape(), (Shape{c.tokens, c.features}));
        EXPECT_TRUE(ultra::test::all_near(back, summed, tolerance)) << (weighted ? kWeight : kBack);
      }
    }
  }
}

TEST_F(TokenPermutation, NothingAtAll) {
  const Tensor nowhere = Tensor::empty(device, {3, 2}, DType::kI32);
  nowhere.fill(kDropped);
  const ExpertOrder order = expert_order(nowhere, 4);
  EXPECT_EQ(order.rows(), 0U) << kNothing;
  EXPECT_EQ(order.rows_per_expert, std::vector<std::size_t>(4, 0));
  const Tensor rows = to_expert_order(random.tensor(device, {3, 2}, DType::kF32), Tensor(), order);
  ultra::test::leave_garbage(device, 6, DType::kF32);
  EXPECT_EQ(from_expert_order(rows, Tensor(), order).to_vector(), std::vector<double>(6, 0.0))
      << kZeros;
}

}  // namespace
}  // namespace ultra::expert_parallel

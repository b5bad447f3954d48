// Contract of exercise 08.1: the best experts of every token, and their weights.
#include "chapters/08_expert_parallel/top_k_routing.hpp"

#include "tests/support/toolbox.hpp"

namespace ultra::expert_parallel {
namespace {

constexpr const char* kChoice = "Hint: the experts with the highest scores, the best one first.";
constexpr const char* kTies =
    "Hint: of equal scores the lower number comes first, or ranks would choose differently.";
constexpr const char* kBias =
    "Hint: a bias moves the selection; the weights come from the affinities alone.";
constexpr const char* kSum =
    "Hint: the weights of a token are divided by the sum of its chosen affinities, not of all.";
constexpr const char* kOne = "Hint: a single choice is weighed by its affinity.";

class TopKRouting : public ultra::test::RandomTest {
 protected:
  /// Positive numbers.
  Tensor affinities(std::size_t tokens, std::size_t experts, DType dtype) {
    Tensor a = Tensor::empty(device, {tokens, experts}, dtype);
    dispatch_float(dtype, [&]<class T>() {
      for (T& value : a.span<T>()) value = static_cast<T>(random.uniform(0.01, 1.0));
    });
    return a;
  }
  /// The numbers of a token's experts by score, the lower of equals first.
  static std::vector<std::int32_t> sorted(const std::vector<double>& scores) {
    std::vector<std::int32_t> order(scores.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, [&](auto a, auto b) {
      return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
    });
    return order;
  }
};

TEST_F(TopKRouting, ChoosesTheBestAndWeighsThem) {
  for (const DType dtype : ultra::test::kFloatDTypes) {
    for (int round = 0; round < 20; ++round) {
      const std::size_t experts = random.between(1, 12);
      const std::size_t top_k = random.between(1, experts);
      const std::size_t tokens = random.between(1, 6);
      const Tensor a = affinities(tokens, experts, dtype);
      const bool biased = random.pick({true, false});
      const Tensor biases = biased ? random.tensor(device, {experts}, dtype, 0.3) : Tensor();
      const Routing routing = top_k_routing(a, biases, top_k);
      ASSERT_EQ(routing.experts.shape(), (Shape{tokens, top_k}));
      ASSERT_EQ(routing.weights.shape(), (Shape{tokens, top_k}));
      const std::vector<double> values = a.to_vector();
      for (std::size_t t = 0; t < tokens; ++t) {
        std::vector<double> own(values.begin() + static_cast<std::ptrdiff_t>(t * experts),
                                values.begin() + static_cast<std::ptrdiff_t>((t + 1) * experts));
        std::vector<double> scores = own;
        dispatch_float(dtype, [&]<class T>() {
          if (!biased) return;
          for (std::size_t e = 0; e < experts; ++e) {
            scores[e] = static_cast<double>(static_cast<T>(own[e]) + biases.data<T>()[e]);
          }
        });
        const std::vector<std::int32_t> order = sorted(scores);
        double sum = 0;
        for (std::size_t k = 0; k < top_k; ++k) sum += own[static_cast<std::size_t>(order[k])];
        for (std::size_t k = 0; k < top_k; ++k) {
          EXPECT_EQ(routing.experts.data<std::int32_t>()[t * top_k + k], order[k])
              << (biased ? kBias : kChoice);
          const double weight = own[static_cast<std::size_t>(order[k])] / (top_k == 1 ? 1.0 : sum);
          EXPECT_NEAR(routing.weights.to_vector()[t * top_k + k], weight,
                      ultra::test::rounding_bound(dtype, 20, 1))
              << (top_k == 1 ? kOne
                  : biased   ? kBias
                             : kSum);
        }
      }
    }
  }
}

TEST_F(TopKRouting, EqualScoresInTheOrderOfTheirNumbers) {
  const std::size_t experts = 9;
  Tensor a = Tensor::empty(device, {1, experts}, DType::kF32);
  a.fill(0.5);
  a.data<float>()[6] = 0.75F;
  const Routing routing = top_k_routing(a, Tensor(), 5);
  EXPECT_EQ(routing.experts.to_vector(), (std::vector<double>{6, 0, 1, 2, 3})) << kTies;
}

TEST_F(TopKRouting, ABiasOvercomesAnyAffinityAndChangesNoWeight) {
  const std::vector<double> values = {0.4, 0.3, 0.2, 0.1};
  Tensor a = Tensor::from<double>(device, {1, 4}, values);
  const std::vector<double> shift = {0, 0, 0, 5};
  const Tensor biases = Tensor::from<double>(device, {4}, shift);
  const Routing routing = top_k_routing(a, biases, 2);
  EXPECT_EQ(routing.experts.to_vector(), (std::vector<double>{3, 0})) << kBias;
  EXPECT_TRUE(ultra::test::all_near(routing.weights, {0.2, 0.8}, 1e-15)) << kBias;
}

}  // namespace
}  // namespace ultra::expert_parallel

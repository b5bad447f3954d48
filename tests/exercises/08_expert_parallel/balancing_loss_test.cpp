// Contract of exercise 08.4: the balancing loss and its gradient.
#include "chapters/08_expert_parallel/balancing_loss.hpp"

#include "tests/support/toolbox.hpp"
#include "tests/support/training/finite_difference.hpp"

namespace ultra::expert_parallel {
namespace {

constexpr const char* kEven =
    "Hint: an even router has the value of the coefficient, for any number of experts and choices.";
constexpr const char* kCollapsed =
    "Hint: choices are relative to those of an even router: top_k of its seq_len tokens over "
    "experts.";
constexpr const char* kMean =
    "Hint: the term is the mean over the sequences of the global batch, not over those here.";
constexpr const char* kOwnChoices = "Hint: a sequence has choices of its own.";
constexpr const char* kShares =
    "Hint: the choices are those of the whole sequence, the probabilities those of this rank's "
    "tokens: the mean divides by seq_len on every rank.";
constexpr const char* kGradient =
    "Hint: choices are constants; the term is linear in what is left.";

class BalancingLoss : public ultra::test::RandomTest {};

TEST_F(BalancingLoss, AnEvenRouterAndACollapsedOne) {
  for (const std::size_t top_k : {1U, 2U, 4U}) {
    const DType dtype = random.pick({DType::kF32, DType::kF64});
    const std::size_t experts = top_k + random.between(1, 5);
    const std::size_t tokens = experts * random.between(1, 3);
    const BalancingTerm term{.coefficient = 0.3, .top_k = top_k, .seq_len = tokens, .sequences = 2};
    const auto chosen = static_cast<double>(top_k * tokens) / static_cast<double>(experts);
    const double tolerance = ultra::test::rounding_bound(dtype, 300, 1.0);
    EXPECT_NEAR(balancing_loss(ultra::test::filled(device, {2, tokens, experts}, dtype,
                                                   1.0 / count_of(experts)),
                               ultra::test::filled(device, {2, experts}, dtype, chosen), term),
                0.3, tolerance)
        << kEven;
    // All tokens choose the first top_k experts, as likely each.
    const Tensor p = Tensor::zeros(device, {2, tokens, experts}, dtype);
    p.slice(2, {0, top_k}).fill(1.0 / static_cast<double>(top_k));
    const Tensor choices = Tensor::zeros(device, {2, experts}, dtype);
    choices.slice(1, {0, top_k}).fill(static_cast<double>(tokens));
    const double highest = static_cast<double>(experts) / static_cast<double>(top_k);
    EXPECT_NEAR(balancing_loss(p, choices, term), 0.3 * highest, 10 * tolerance) << kCollapsed;
  }
}

TEST_F(BalancingLoss, SequencesAndSharesOfRanksAddUpToTheMeanOverTheGlobalBatch) {
  const BalancingTerm term{.coefficient = 0.9, .top_k = 2, .seq_len = 6, .sequences = 4};
  const Tensor p = random.tensor(device, {2, 6, 4}, DType::kF64);
  const Tensor choices = random.tensor(device, {2, 4}, DType::kF64);
  const double all = balancing_loss(p, choices, term);
  BalancingTerm one = term;
  one.sequences = 1;
  EXPECT_NEAR(all, balancing_loss(p, choices, one) / 4, 1e-14) << kMean;
  double sum = 0;
  for (const std::size_t s : {0U, 1U}) {
    sum += balancing_loss(p.slice(0, {s, s + 1}), choices.slice(0, {s, s + 1}), term);
  }
  EXPECT_NEAR(all, sum, 1e-14) << kOwnChoices;
  const double shares = balancing_loss(p.slice(1, {0, 2}).contiguous(), choices, term) +
                        balancing_loss(p.slice(1, {2, 6}).contiguous(), choices, term);
  EXPECT_NEAR(all, shares, 1e-14) << kShares;
}

TEST_F(BalancingLoss, GradientsAreThoseOfFiniteDifferences) {
  const BalancingTerm term{.coefficient = 2.0, .top_k = 2, .seq_len = 4, .sequences = 3};
  const Tensor p = random.tensor(device, {2, 4, 5}, DType::kF64);
  const Tensor choices = random.tensor(device, {2, 5}, DType::kF64);
  const Tensor d_p = balancing_loss_backward(choices, 4, term);
  ASSERT_EQ(d_p.shape(), p.shape());
  EXPECT_TRUE(ultra::test::gradients_match(random, [&] { return balancing_loss(p, choices, term); },
                                           {{"probabilities", p, d_p}}))
      << kGradient;
}

}  // namespace
}  // namespace ultra::expert_parallel

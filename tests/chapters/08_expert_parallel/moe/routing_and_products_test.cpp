// What routers make of logits, who gets an expert's places, and products of groups of rows.
//
// Covers: chapters/08_expert_parallel/moe/affinities.hpp
// Covers: chapters/08_expert_parallel/moe/capacity.hpp
// Covers: chapters/08_expert_parallel/moe/expert_linears.hpp

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "chapters/08_expert_parallel/moe/affinities.hpp"
#include "chapters/08_expert_parallel/moe/capacity.hpp"
#include "chapters/08_expert_parallel/moe/expert_linears.hpp"
#include "common/base/errors.hpp"
#include "common/comm/run_ranks.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/random.hpp"
#include "tests/support/training/finite_difference.hpp"

namespace ultra::expert_parallel {
namespace {

using ops::Transpose;
using ultra::test::gradients_match;
using ultra::test::inner_product;

class Affinities : public ultra::test::RandomTest {};

TEST_F(Affinities, AreSoftmaxOrSigmoid) {
  const std::vector<double> values = {0, std::log(2.0), std::log(5.0)};
  const Tensor logits = Tensor::from<double>(device, {1, 3}, values);
  EXPECT_TRUE(ultra::test::all_near(affinities_of(logits, RouterKind::kSoftmax),
                                    {1.0 / 8, 2.0 / 8, 5.0 / 8}, 1e-15));
  EXPECT_TRUE(ultra::test::all_near(affinities_of(logits, RouterKind::kSigmoid),
                                    {1.0 / 2, 2.0 / 3, 5.0 / 6}, 1e-15));
  EXPECT_TRUE(ultra::test::all_near(
      probabilities_of(affinities_of(logits, RouterKind::kSigmoid), RouterKind::kSigmoid),
      {0.25, 1.0 / 3, 5.0 / 12}, 1e-15));
  EXPECT_TRUE(ultra::test::all_near(log_sum_exp(logits), {std::log(8.0)}, 1e-15));
}

TEST_F(Affinities, LargeLogitsDoNotOverflow) {
  const std::vector<float> values = {500.0F, 499.0F, -500.0F};
  const Tensor logits = Tensor::from<float>(device, {1, 3}, values);
  for (const RouterKind kind : {RouterKind::kSoftmax, RouterKind::kSigmoid}) {
    for (const double affinity : affinities_of(logits, kind).to_vector()) {
      EXPECT_TRUE(affinity >= 0 && affinity <= 1) << affinity;
    }
  }
}

TEST_F(Affinities, GradientsAreThoseOfFiniteDifferences) {
  for (const RouterKind kind : {RouterKind::kSoftmax, RouterKind::kSigmoid}) {
    const Tensor logits = random.tensor(device, {3, 4}, DType::kF64);
    const Tensor d = random.tensor(device, {3, 4}, DType::kF64);
    EXPECT_TRUE(gradients_match(
        random, [&] { return inner_product(affinities_of(logits, kind), d); },
        {{"logits", logits, affinities_backward(d, affinities_of(logits, kind), kind)}}));
    const Tensor affinities = affinities_of(logits, kind);
    EXPECT_TRUE(gradients_match(
        random, [&] { return inner_product(probabilities_of(affinities, kind), d); },
        {{"affinities", affinities, probabilities_backward(d, affinities, kind)}}));
  }
  const Tensor logits = random.tensor(device, {3, 4}, DType::kF64);
  const Tensor d_logits = Tensor::zeros(device, {3, 4}, DType::kF64);
  add_z_loss_gradient(d_logits, logits, 0.3);
  const auto z_loss = [&] {
    const Tensor sums = log_sum_exp(logits);
    return 0.3 * inner_product(sums, sums);
  };
  EXPECT_TRUE(gradients_match(random, z_loss, {{"logits", logits, d_logits}}));
}

constexpr std::int32_t kNo = kDropped;

class Capacity : public ultra::test::RandomTest {};

// 4096 tokens for 8 experts with a factor of 1.25: the example of the Switch transformers' paper.
TEST_F(Capacity, IsTheShareOfAnExpertTimesTheFactor) {
  EXPECT_EQ(capacity_of(1.25, 4096, {.num_experts = 8, .top_k = 1}), 640U);
  EXPECT_EQ(capacity_of(1.0, 4096, {.num_experts = 8, .top_k = 2}), 1024U) << "GShard: 2 T / E";
  EXPECT_EQ(capacity_of(1.0, 10, {.num_experts = 3, .top_k = 1}), 4U) << "rounded up";
  EXPECT_EQ(capacity_of(1.1, 10, {.num_experts = 1, .top_k = 1}), 11U) << "11.000000000000002";
  EXPECT_EQ(capacity_of(1e-6, 10, {.num_experts = 2, .top_k = 1}), 1U) << "never none";
}

TEST_F(Capacity, FirstChoicesComeBeforeSecondOnes) {
  // Three tokens, two choices each, of two experts with one place.
  std::vector<std::int32_t> choices = {0, 1, 1, 0, 1, 0};
  const std::vector<std::size_t> order = {0, 1, 2};
  keep_places(choices, 2, order, 2, 1);
  EXPECT_EQ(choices, (std::vector<std::int32_t>{0, kNo, 1, kNo, kNo, kNo}));
  choices = {0, 1, 0, kNo, kNo, 1};
  keep_places(choices, 2, order, 2, 1);
  EXPECT_EQ(choices, (std::vector<std::int32_t>{0, 1, kNo, kNo, kNo, kNo}))
      << "what goes nowhere takes no place";
}

// However the tokens of sequences are dealt out, the same ones are dropped.
TEST_F(Capacity, OfSequencesIsTheSameOnAnyNumberOfRanks) {
  for (const int ranks : {1, 2, 3}) {
    const auto size = static_cast<std::size_t>(ranks);
    const std::size_t seq = size * random.between(1, 5);
    const std::size_t batch = random.between(1, 3);
    const MoeConfig config{
        .num_experts = 3, .top_k = 2, .capacity_factor = random.uniform(0.2, 1.2)};
    const Tensor whole = random.tokens(device, {batch * seq, 2}, 3);
    const Tensor expected = whole.clone();
    run_ranks(1, [&](Communicator& one) {
      drop_beyond_capacity(expected, {.batch = batch, .seq = seq, .seq_len = seq}, config, one);
    });
    // Position p is on rank owner[p % ranks], whatever that is.
    std::vector<std::size_t> owners(size);
    std::iota(owners.begin(), owners.end(), 0U);
    std::ranges::reverse(owners);
    run_ranks(ranks, [&](Communicator& cp) {
      std::vector<std::int32_t> positions;
      for (std::size_t p = 0; p < seq; ++p) {
        if (owners[p % size] == static_cast<std::size_t>(cp.rank())) {
          positions.push_back(static_cast<std::int32_t>(p));
        }
      }
      const Tensor own = Tensor::empty(Device::cpu(), {batch * seq / size, 2}, DType::kI32);
      const auto at = [&](std::size_t s, std::size_t i) {
        return s * seq + static_cast<std::size_t>(positions[i]);
      };
      for (std::size_t s = 0; s < batch; ++s) {
        for (std::size_t i = 0; i < positions.size(); ++i) {
          const std::size_t row = s * positions.size() + i;
          own.slice(0, {row, row + 1}).copy_from(whole.slice(0, {at(s, i), at(s, i) + 1}));
        }
      }
      drop_beyond_capacity(
          own, {.batch = batch, .seq = positions.size(), .positions = positions, .seq_len = seq},
          config, cp);
      for (std::size_t s = 0; s < batch; ++s) {
        for (std::size_t i = 0; i < positions.size(); ++i) {
          for (std::size_t k = 0; k < 2; ++k) {
            EXPECT_EQ(own.data<std::int32_t>()[(s * positions.size() + i) * 2 + k],
                      expected.data<std::int32_t>()[at(s, i) * 2 + k])
                << "rank " << cp.rank() << " of " << ranks;
          }
        }
      }
    });
  }
}

class GroupedMatmul : public ultra::test::RandomTest {};

TEST_F(GroupedMatmul, EveryGroupHasItsOwnMatrix) {
  for (const DType dtype : ultra::test::kFloatDTypes) {
    const std::size_t k = random.between(1, 7);
    const std::size_t n = random.between(1, 7);
    std::vector<std::size_t> rows;
    std::vector<Tensor> matrices;
    std::size_t all = 0;
    for (std::size_t g = 0; g < 5; ++g) {
      rows.push_back(g == 2 ? 0 : random.between(0, 6));
      matrices.push_back(random.tensor(device, {n, k}, dtype));
      all += rows.back();
    }
    const Tensor a = random.tensor(device, {all, k}, dtype);
    const Tensor out = grouped_matmul(a, rows, matrices, Transpose::kYes);
    const Tensor twice = out.clone();
    grouped_matmul_into(twice, a, rows, matrices, Transpose::kYes, ops::Write::kAccumulate);
    std::size_t row = 0;
    for (std::size_t g = 0; g < rows.size(); ++g) {
      for (std::size_t r = 0; r < rows[g]; ++r, ++row) {
        for (std::size_t j = 0; j < n; ++j) {
          double sum = 0;
          for (std::size_t i = 0; i < k; ++i) {
            sum += a.to_vector()[row * k + i] * matrices[g].to_vector()[j * k + i];
          }
          const double tolerance = ultra::test::rounding_bound(dtype, 10, 30);
          EXPECT_NEAR(out.to_vector()[row * n + j], sum, tolerance);
          EXPECT_NEAR(twice.to_vector()[row * n + j], 2 * sum, 2 * tolerance);
        }
      }
    }
  }
}

TEST_F(GroupedMatmul, NoRowsAtAllAndRowsThatDoNotAddUp) {
  const std::vector<Tensor> matrices = {random.tensor(device, {3, 2}, DType::kF32)};
  const Tensor none = Tensor::empty(device, {0, 2}, DType::kF32);
  EXPECT_EQ(grouped_matmul(none, std::vector<std::size_t>{0}, matrices, Transpose::kYes).shape(),
            (Shape{0, 3}));
  const Tensor two = random.tensor(device, {2, 2}, DType::kF32);
  const std::string message = ultra::test::message_of<ShapeError>([&] {
    static_cast<void>(grouped_matmul(two, std::vector<std::size_t>{3}, matrices, Transpose::kYes));
  });
  EXPECT_NE(message.find("1 groups of 3 rows for 1 matrices and 2 rows"), std::string::npos)
      << message;
}

}  // namespace
}  // namespace ultra::expert_parallel

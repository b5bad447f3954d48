// Places of experts, and who gets them.
//
// Covers: chapters/08_expert_parallel/moe/capacity.hpp

#include "chapters/08_expert_parallel/moe/capacity.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "common/comm/run_ranks.hpp"
#include "tests/support/random.hpp"

namespace ultra::expert_parallel {
namespace {

constexpr std::int32_t kNo = kNowhere;

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

}  // namespace
}  // namespace ultra::expert_parallel

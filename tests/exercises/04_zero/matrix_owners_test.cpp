// Contract of exercise 04.11: how much the rank with most has to compute, against the best of all dealings,
// which is found by trying them.
#include "chapters/04_zero/whole_matrices/matrix_owners.hpp"

#include <fmt/ranges.h>

#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using Costs = std::vector<std::size_t>;
using Owners = std::vector<int>;

std::size_t size_of_ranks(int ranks) { return static_cast<std::size_t>(ranks); }

/// What the rank with most has.
std::size_t largest_load(const Costs& costs, const Owners& owners, int ranks) {
  Costs loads(size_of_ranks(ranks), 0);
  for (std::size_t m = 0; m < costs.size(); ++m) {
    loads.at(static_cast<std::size_t>(owners.at(m))) += costs[m];
  }
  return std::ranges::max(loads);
}

/// The best of all dealings.
std::size_t best_load(const Costs& costs, int ranks) {
  std::size_t dealings = 1;
  for (std::size_t m = 0; m < costs.size(); ++m) dealings *= size_of_ranks(ranks);
  std::size_t best = std::accumulate(costs.begin(), costs.end(), std::size_t{0});
  for (std::size_t dealing = 0; dealing < dealings; ++dealing) {
    Owners owners;
    for (std::size_t rest = dealing, m = 0; m < costs.size(); ++m) {
      owners.push_back(static_cast<int>(rest % size_of_ranks(ranks)));
      rest /= size_of_ranks(ranks);
    }
    best = std::min(best, largest_load(costs, owners, ranks));
  }
  return best;
}

/// Each of the costs, as they stand, to the rank with least so far.
Owners as_they_stand(const Costs& costs, int ranks) {
  Costs loads(size_of_ranks(ranks), 0);
  Owners owners;
  for (const std::size_t cost : costs) {
    const auto least = std::ranges::min_element(loads);
    *least += cost;
    owners.push_back(static_cast<int>(least - loads.begin()));
  }
  return owners;
}

std::string hint_for(const Costs& costs, const Owners& found, int ranks) {
  Owners in_turns;
  for (std::size_t m = 0; m < costs.size(); ++m) {
    in_turns.push_back(static_cast<int>(m % size_of_ranks(ranks)));
  }
  if (found == in_turns) {
    return "dealt out in turns, each rank has as many matrices, but not as much to compute.";
  }
  if (found == as_they_stand(costs, ranks)) {
    return "a large matrix that comes late finds no rank with room for it: which should come "
           "first?";
  }
  return "the most expensive matrix first, and each to the rank that has least to compute so far: "
         "least in operations, not in matrices.";
}

/// Each matrix has one owner, and no rank has more to compute than that.
void expect_dealt(const Costs& costs, int ranks, std::size_t most) {
  const Owners found = matrix_owners(costs, ranks);
  ASSERT_EQ(found.size(), costs.size()) << "Hint: every matrix has one owner.";
  for (const int owner : found) {
    ASSERT_TRUE(owner >= 0 && owner < ranks) << "owner " << owner << " of " << ranks << " ranks";
  }
  EXPECT_LE(largest_load(costs, found, ranks), most)
      << fmt::format("costs {} on {} ranks: found owners {}\nHint: {}", costs, ranks, found,
                     hint_for(costs, found, ranks));
}

class MatrixOwnersTest : public ultra::test::RandomTest {};

TEST_F(MatrixOwnersTest, NoRankHasMoreThanFourThirdsOfTheBest) {
  for (int trial = 0; trial < 60 && !HasFailure(); ++trial) {
    const int ranks = static_cast<int>(random.between(1, 3));
    Costs costs(random.between(0, 7));
    for (std::size_t& cost : costs) cost = random.between(1, 50);
    expect_dealt(costs, ranks, 4 * best_load(costs, ranks) / 3);
  }
}

// The matrices of blocks that are alike: what models have.
TEST_F(MatrixOwnersTest, EqualBlocksGiveEachRankTheSame) {
  const Costs block = {8, 2, 2, 8, 21, 21, 21};
  for (const int ranks : {1, 2, 4, 8}) {
    Costs costs;
    for (int layer = 0; layer < ranks; ++layer) {
      costs.insert(costs.end(), block.begin(), block.end());
    }
    expect_dealt(costs, ranks, std::accumulate(block.begin(), block.end(), std::size_t{0}));
  }
}

TEST_F(MatrixOwnersTest, WorkedByHand) { expect_dealt({4, 1, 1, 2, 4}, 2, 6); }

}  // namespace
}  // namespace ultra::zero

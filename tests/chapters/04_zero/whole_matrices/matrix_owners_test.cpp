#include "chapters/04_zero/whole_matrices/matrix_owners.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include "tests/support/random.hpp"

namespace ultra::zero {
namespace {

class MatrixOwners : public ultra::test::RandomTest {
 protected:
  /// What the rank with most has.
  static std::size_t largest_load(const std::vector<std::size_t>& costs,
                                  const std::vector<int>& owners, int ranks) {
    std::vector<std::size_t> loads(static_cast<std::size_t>(ranks), 0);
    for (std::size_t m = 0; m < costs.size(); ++m) {
      loads.at(static_cast<std::size_t>(owners.at(m))) += costs[m];
    }
    return std::ranges::max(loads);
  }

  /// The best of all dealings, by trying them.
  static std::size_t best_load(const std::vector<std::size_t>& costs, int ranks) {
    std::size_t dealings = 1;
    for (std::size_t m = 0; m < costs.size(); ++m) dealings *= static_cast<std::size_t>(ranks);
    std::size_t best = std::accumulate(costs.begin(), costs.end(), std::size_t{0});
    for (std::size_t dealing = 0; dealing < dealings; ++dealing) {
      std::vector<int> owners;
      for (std::size_t rest = dealing, m = 0; m < costs.size(); ++m) {
        owners.push_back(static_cast<int>(rest % static_cast<std::size_t>(ranks)));
        rest /= static_cast<std::size_t>(ranks);
      }
      best = std::min(best, largest_load(costs, owners, ranks));
    }
    return best;
  }
};

TEST_F(MatrixOwners, AreWithinFourThirdsOfTheBestDealing) {
  for (int trial = 0; trial < 40; ++trial) {
    const int ranks = static_cast<int>(random.between(1, 3));
    std::vector<std::size_t> costs(random.between(0, 7));
    for (std::size_t& cost : costs) cost = random.between(1, 50);
    const std::vector<int> owners = matrix_owners(costs, ranks);
    ASSERT_EQ(owners.size(), costs.size());
    EXPECT_LE(3 * largest_load(costs, owners, ranks), 4 * best_load(costs, ranks));
  }
}

// Blocks that are alike, which is what models have: as many matrices of each size on each rank.
TEST_F(MatrixOwners, DealBlocksOutEvenly) {
  const std::vector<std::size_t> block = {8, 2, 2, 8, 21, 21, 21};
  for (const int ranks : {2, 4, 8}) {
    std::vector<std::size_t> costs;
    for (int layer = 0; layer < ranks; ++layer)
      costs.insert(costs.end(), block.begin(), block.end());
    EXPECT_EQ(largest_load(costs, matrix_owners(costs, ranks), ranks),
              std::accumulate(block.begin(), block.end(), std::size_t{0}));
  }
}

}  // namespace
}  // namespace ultra::zero

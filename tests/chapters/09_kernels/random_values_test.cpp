// Inputs that are drawn once, and repeat.

#include "chapters/09_kernels/random_values.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace ultra::ladders {
namespace random_values_test {

TEST(NormalValues, RepeatFromTheLastDrawnOne) {
  const std::vector<float> once = normal_values(kDrawnNumbers, 7, "x");
  const std::vector<float> more = normal_values(2 * kDrawnNumbers + 3, 7, "x");
  EXPECT_TRUE(std::equal(once.begin(), once.end(), more.begin()));
  EXPECT_TRUE(std::equal(once.begin(), once.end(),
                         more.begin() + static_cast<std::ptrdiff_t>(kDrawnNumbers)));
  EXPECT_EQ(more.back(), once[2]);
  EXPECT_EQ(normal_values(5, 7, "x"), std::vector<float>(once.begin(), once.begin() + 5));
}

// The first numbers of rows that lie a round number of elements apart.
TEST(NormalValues, DifferFromRowToRow) {
  const std::vector<float> values = normal_values(std::size_t{8192} * 4096, 3, "x");
  std::set<float> firsts;
  for (std::size_t row = 0; row < 8192; ++row) {
    firsts.insert(values[row * 4096]);
  }
  EXPECT_GT(firsts.size(), 8192U * 99 / 100);
}

}  // namespace random_values_test
}  // namespace ultra::ladders

#include "common/ops/sums/tree_sum.hpp"

#include <bit>
#include <functional>

#include "tests/support/toolbox.hpp"

namespace ultra::ops {
namespace {

class TreeSumTest : public test::RandomTest {};

/// Neighbours first, by halves: what has no neighbour is alone on the right.
float by_halves(const std::function<float(std::size_t)>& at, std::size_t begin, std::size_t count) {
  if (count == 1) return at(begin);
  const std::size_t left = std::bit_ceil(count) / 2;
  return by_halves(at, begin, left) + by_halves(at, begin + left, count - left);
}

TEST_F(TreeSumTest, JoinsNeighboursAlongAnyDimension) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const std::size_t rows = random.between(1, 4);
    const std::size_t places = random.between(1, 20);
    const std::size_t columns = random.between(1, 5);
    const Tensor x = random.tensor(device, {rows, places, columns}, dtype);
    const std::vector<double> before = x.to_vector();
    const Tensor sum = tree_sum(x, 1);
    EXPECT_EQ(sum.shape(), (Shape{rows, 1, columns}));
    EXPECT_EQ(sum.dtype(), DType::kF32) << "not rounded to the type of the terms";
    EXPECT_EQ(x.to_vector(), before) << "the terms stay as they are";
    const std::vector<double> sums = sum.to_vector();
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const std::size_t first = i / columns * places * columns + i % columns;
      const auto at = [&](std::size_t place) {
        return static_cast<float>(before[first + place * columns]);
      };
      EXPECT_EQ(static_cast<float>(sums[i]), by_halves(at, 0, places)) << places << " places";
    }
  }
}

}  // namespace
}  // namespace ultra::ops

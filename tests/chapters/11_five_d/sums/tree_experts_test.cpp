// The gradient of an expert's weight: that of its rows, and of the same bits however tokens are cut.
#include "chapters/11_five_d/sums/tree_experts.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/ops/elementwise.hpp"
#include "common/ops/matmul.hpp"
#include "common/ops/sums/sum_tree.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::five_d {
namespace {

class ExpertGradientTest : public ultra::test::RandomTest {
 protected:
  void SetUp() override {
    for (std::size_t place = 0; place < 4 * seq; ++place) {
      if (place == seq || place == 2 * seq || random.between(0, 2) == 0) {
        places.push_back(static_cast<std::int32_t>(place));
      }
    }
    d_y = random.tensor(trees, {places.size(), out}, DType::kF64, 1.0);
    x = random.tensor(trees, {places.size(), in}, DType::kF64, 1.0);
  }

  /// From the rows of some sequences, which stand at places from their first one on.
  Tensor gradient(Range sequences) {
    const auto at = [&](std::size_t sequence) {
      return static_cast<std::size_t>(
          std::ranges::lower_bound(places, static_cast<std::int32_t>(sequence * seq)) -
          places.begin());
    };
    const Range rows{at(sequences.begin), at(sequences.end)};
    const Tensor grad = Tensor::zeros(trees, {out, in}, DType::kF64);
    if (rows.size() == 0) return grad;
    const Tensor own = Tensor::empty(Device::cpu(), {rows.size()}, DType::kI32);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      own.data<std::int32_t>()[i] =
          places[rows.begin + i] - static_cast<std::int32_t>(sequences.begin * seq);
    }
    expert_gradient_into(grad, d_y.slice(0, rows), x.slice(0, rows), own,
                         ops::SumTree::of_axis(seq).leaf(), ops::Write::kOverwrite);
    return grad;
  }

  Device trees = Device::create(DeviceKind::kCpu, 0, MatmulLibrary::kOurs);
  std::size_t seq = random.pick({9U, 16U, 17U, 32U, 40U});
  std::size_t out = random.between(1, 20);
  std::size_t in = random.between(1, 20);
  std::vector<std::int32_t> places;
  Tensor d_y;
  Tensor x;
};

TEST_F(ExpertGradientTest, IsTheSumOverRows) {
  const Device cpu = Device::cpu();
  EXPECT_TRUE(all_near(
      gradient({0, 4}),
      ops::matmul(d_y.to(cpu), ops::Transpose::kYes, x.to(cpu), ops::Transpose::kNo), 1e-11));
}

TEST_F(ExpertGradientTest, HasTheBitsOfItsSequences) {
  std::vector<Tensor> each;
  for (std::size_t i = 0; i < 4; ++i) each.push_back(gradient({i, i + 1}));
  EXPECT_TRUE(ultra::test::all_equal(
      gradient({0, 4}), ops::add(ops::add(each[0], each[1]), ops::add(each[2], each[3]))));
}

}  // namespace
}  // namespace ultra::five_d

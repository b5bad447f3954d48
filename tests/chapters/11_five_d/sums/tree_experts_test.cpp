// The gradient of an expert's weight: that of its rows, and of the same bits however tokens are cut.

#include "chapters/11_five_d/sums/tree_experts.hpp"

#include "chapters/11_five_d/sums/tied_table.hpp"
#include "common/ops/elementwise.hpp"
#include "common/ops/embedding.hpp"
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

  Device trees = Device::create(DeviceKind::kCpu, 0, MatmulLibrary::kTrees);
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

// The gradient of a tied table: that of its two layers, and of the same bits however the tokens are cut.

constexpr std::size_t kVocabulary = 12;

class TiedTableTest : public ultra::test::RandomTest {
 protected:
  /// The gradient of rows of the table, from some of the sequences.
  Tensor gradient(Range sequences, Range rows) {
    const Tensor grad = Tensor::empty(trees, {rows.size(), hidden}, DType::kF64);
    const HeadTerms head{.d_logits = d_logits.slice(0, sequences).slice(2, rows).contiguous(),
                         .input = input.slice(0, sequences)};
    tied_gradient_into(grad, head, tokens.slice(0, sequences), d_output.slice(0, sequences),
                       rows.begin, ops::Write::kOverwrite);
    return grad;
  }
  Tensor numbers(const Shape& shape) { return random.tensor(trees, shape, DType::kF64, 1.0); }

  Device trees = Device::create(DeviceKind::kCpu, 0, MatmulLibrary::kTrees);
  std::size_t seq = random.pick({9U, 16U, 17U, 32U, 40U});
  std::size_t hidden = random.between(1, 20);
  Tensor tokens = random.tokens(trees, {4, seq}, kVocabulary);
  Tensor d_logits = numbers({4, seq, kVocabulary});
  Tensor input = numbers({4, seq, hidden});
  Tensor d_output = numbers({4, seq, hidden});
};

TEST_F(TiedTableTest, IsTheSumOfBothLayers) {
  const Device cpu = Device::cpu();
  const Tensor expected = ops::matmul(ops::as_matrix(d_logits.to(cpu)), ops::Transpose::kYes,
                                      ops::as_matrix(input.to(cpu)), ops::Transpose::kNo);
  ops::embedding_backward_into(expected, d_output.to(cpu), tokens.to(cpu));
  EXPECT_TRUE(all_near(gradient({0, 4}, {0, kVocabulary}), expected, 1e-11));
}

TEST_F(TiedTableTest, HasTheBitsOfItsSequencesAndOfItsRows) {
  const Tensor whole = gradient({0, 4}, {0, kVocabulary});
  std::vector<Tensor> each;
  for (std::size_t i = 0; i < 4; ++i) each.push_back(gradient({i, i + 1}, {0, kVocabulary}));
  EXPECT_TRUE(ultra::test::all_equal(
      whole, ops::add(ops::add(each[0], each[1]), ops::add(each[2], each[3]))));
  EXPECT_TRUE(ultra::test::all_equal(whole.slice(0, {5, 9}), gradient({0, 4}, {5, 9})));
}

}  // namespace
}  // namespace ultra::five_d

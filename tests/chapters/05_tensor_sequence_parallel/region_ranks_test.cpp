// The borders of a region of split matrices, and the layers between them, on ranks.
//
// Covers: chapters/05_tensor_sequence_parallel/region.hpp
// Covers: chapters/05_tensor_sequence_parallel/sequence_region.hpp

#include "chapters/05_tensor_sequence_parallel/region.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "chapters/05_tensor_sequence_parallel/sequence_region.hpp"
#include "common/comm/run_ranks.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/random.hpp"

namespace ultra::tensor_parallel {
namespace {

using ultra::test::all_equal;

class RegionTest : public ultra::test::RandomTest {
 protected:
  /// Every rank's values: small integers, whose sums are exact.
  static Tensor values_of(int rank, const Shape& shape) {
    std::vector<double> values(shape.numel());
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<double>((i * 7 + static_cast<std::size_t>(rank) * 13) % 31);
    }
    return Tensor::from<double>(Device::cpu(), shape, values);
  }

  static Tensor sum_over(int ranks, const Shape& shape) {
    std::vector<double> sum(shape.numel(), 0.0);
    for (int rank = 0; rank < ranks; ++rank) {
      const std::vector<double> values = values_of(rank, shape).to_vector();
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
    }
    return Tensor::from<double>(Device::cpu(), shape, sum);
  }

  /// A rank's tokens of [batch, seq, hidden].
  static Tensor tokens_of(const Tensor& whole, int rank, int ranks) {
    const std::size_t local = whole.size(1) / static_cast<std::size_t>(ranks);
    const auto begin = static_cast<std::size_t>(rank) * local;
    return whole.slice(1, {begin, begin + local}).contiguous();
  }

  Shape draw_shape(int ranks) {
    return {random.between(1, 3), static_cast<std::size_t>(ranks) * random.between(1, 4),
            random.between(1, 9)};
  }
};

TEST_F(RegionTest, WithoutSequenceParallelismRanksHaveAllTokensOnBothSides) {
  for (const int ranks : {1, 2, 3, 5}) {
    const Shape shape = draw_shape(ranks);
    run_ranks(ranks, [&](Communicator& tp) {
      const auto region = make_region(tp, SequenceParallel::kOff);
      const Tensor own = values_of(tp.rank(), shape);
      const Tensor entered = region->enter(own).wait();
      const Tensor gradient = region->leave_backward(own).wait();
      const Tensor left = region->leave(own.clone()).wait();
      const Tensor entered_backward = region->enter_backward(own.clone()).wait();
      EXPECT_TRUE(entered.shares_storage(own)) << "nothing is copied";
      EXPECT_TRUE(gradient.shares_storage(own));
      EXPECT_TRUE(all_equal(left, sum_over(ranks, shape)));
      EXPECT_TRUE(all_equal(entered_backward, sum_over(ranks, shape)));
      EXPECT_TRUE(all_equal(own, values_of(tp.rank(), shape))) << "what enters is not written to";
    });
  }
}

TEST_F(RegionTest, AWaitingRegionGivesTheSame) {
  const Shape shape = draw_shape(3);
  run_ranks(3, [&](Communicator& tp) {
    for (const SequenceParallel on : {SequenceParallel::kOff, SequenceParallel::kOn}) {
      const auto region = make_region(tp, on);
      WaitingRegion waiting(make_region(tp, on));
      const Tensor outside = tokens_of(values_of(0, shape), tp.rank(), 3);
      const auto part = [&] { return values_of(tp.rank(), shape); };
      EXPECT_TRUE(all_equal(waiting.enter(outside).wait(), region->enter(outside).wait()));
      EXPECT_TRUE(all_equal(waiting.leave(part()).wait(), region->leave(part()).wait()));
      EXPECT_TRUE(
          all_equal(waiting.enter_backward(part()).wait(), region->enter_backward(part()).wait()));
      EXPECT_TRUE(all_equal(waiting.leave_backward(outside).wait(),
                            region->leave_backward(outside).wait()));
    }
  });
}

TEST_F(RegionTest, SequencesCutAndJoinedAreTheSame) {
  const std::size_t ranks = random.between(1, 5);
  const Tensor x = random.tensor(device, draw_shape(static_cast<int>(ranks)), DType::kF32);
  const Tensor parts = cut_sequences(x, ranks);
  EXPECT_EQ(parts.shape(), (Shape{ranks, x.size(0), x.size(1) / ranks, x.size(2)}));
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const Tensor part =
        parts.slice(0, {rank, rank + 1}).view({x.size(0), parts.size(2), x.size(2)});
    EXPECT_TRUE(all_equal(part, tokens_of(x, static_cast<int>(rank), static_cast<int>(ranks))));
  }
  EXPECT_TRUE(all_equal(join_sequences(parts), x));
}

}  // namespace
}  // namespace ultra::tensor_parallel

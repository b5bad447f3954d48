// The exchange by itself: matrices in parts of every kind, and the mistakes that it is there to avoid.

#include "chapters/04_zero/whole_matrices/whole_matrices.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/numeric.hpp"
#include "common/ops/elementwise.hpp"
#include "common/optim/newton_schulz.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/random.hpp"
#include "tests/support/ranks/on_ranks.hpp"

namespace ultra::zero {
namespace {

using ultra::test::all_equal;

/// A matrix, and who has which part of it.
struct CutMatrix {
  Tensor whole;
  std::vector<std::optional<MatrixPart>> parts;  // empty: all have all of it
};

class WholeMatricesTest : public ultra::test::RandomTest {
 protected:
  /// Ranges that together are all of it, some of them empty.
  std::vector<Range> cut(std::size_t size, std::size_t ranks) {
    std::vector<std::size_t> borders = {0, size};
    for (std::size_t i = 1; i < ranks; ++i) borders.push_back(random.between(0, size));
    std::ranges::sort(borders);
    std::vector<Range> ranges;
    for (std::size_t i = 0; i < ranks; ++i) ranges.push_back({borders[i], borders[i + 1]});
    return ranges;
  }

  /// In flat shards, in rows, in columns, or not at all.
  CutMatrix draw(std::size_t ranks) {
    const std::size_t rows = random.between(1, 9);
    const std::size_t columns = random.between(1, 9);
    CutMatrix matrix{.whole = random.tensor(device, {rows, columns}, DType::kF64), .parts = {}};
    const std::size_t kind = random.between(0, 3);
    if (kind == 3) return matrix;
    const std::size_t cut_size = kind == 0 ? rows * columns : kind == 1 ? rows : columns;
    for (const Range& range : cut(cut_size, ranks)) {
      MatrixPart part{.view = matrix.whole.shape(), .ranges = {{0, rows}, {0, columns}}};
      if (kind == 0) part = {.view = {rows * columns}, .ranges = {range}};
      if (kind == 1) part.ranges[0] = range;
      if (kind == 2) part.ranges[1] = range;
      matrix.parts.push_back(range.size() == 0 ? std::nullopt : std::optional(part));
    }
    return matrix;
  }

  static Tensor orthogonalized(const Tensor& matrix) {
    const Tensor copy = matrix.clone();
    optim::newton_schulz(copy);
    return copy;
  }

  /// How far two matrices are apart, over the length of the second.
  static double distance(const Tensor& a, const Tensor& b) {
    const Tensor difference = b.clone();
    ops::scale_into(difference, -1.0);
    ops::add_into(difference, a);
    return std::sqrt(ops::sum_of_squares(difference) / ops::sum_of_squares(b));
  }
};

TEST_F(WholeMatricesTest, TransformsEachMatrixOnceWhateverItsPartsAre) {
  for (const int ranks : {1, 2, 3, 5}) {
    const auto size = checked_cast<std::size_t>(ranks);
    std::vector<CutMatrix> matrices;
    for (int m = 0; m < 6; ++m) matrices.push_back(draw(size));
    const std::size_t at_once = random.between(0, 3);
    ultra::test::on_ranks(ranks, "matrices in parts", [&](const Communicator& world) {
      const auto rank = checked_cast<std::size_t>(world.rank());
      std::vector<std::unique_ptr<nn::Parameter>> parameters;
      std::vector<SharedMatrix> shared;
      std::vector<Tensor> pieces = {Tensor()};  // of a weight that is no matrix
      std::vector<Tensor> expected = {Tensor()};
      double transforms = 0;
      for (const CutMatrix& matrix : matrices) {
        parameters.push_back(
            std::make_unique<nn::Parameter>(nn::ParameterSpec{.name = "a matrix",
                                                              .global_shape = matrix.whole.shape(),
                                                              .shard = {},
                                                              .initializer = {}},
                                            device, DType::kF64, 1, nn::Values::kDeferred));
        shared.push_back({.parameter = parameters.back().get(),
                          .shape = matrix.whole.shape(),
                          .parts = matrix.parts,
                          .piece = pieces.size()});
        transforms += matrix.parts.empty() ? ranks : 1;
        if (!matrix.parts.empty() && !matrix.parts[rank]) continue;
        const auto part_of = [&](const Tensor& whole) {
          return matrix.parts.empty() ? whole.clone() : matrix.parts[rank]->of(whole).clone();
        };
        pieces.push_back(part_of(matrix.whole));
        expected.push_back(part_of(orthogonalized(matrix.whole)));
      }
      const Tensor done = Tensor::zeros(device, {1}, DType::kF64);
      WholeMatrices(shared, world, {}, at_once).transform(pieces, [&](const Tensor& matrix) {
        ops::add_into(done, Tensor::from<double>(device, {1}, std::vector<double>{1.0}));
        optim::newton_schulz(matrix);
      });
      world.all_reduce(done).wait();
      EXPECT_EQ(done.to_vector().front(), transforms);
      for (std::size_t i = 1; i < pieces.size(); ++i) {
        EXPECT_TRUE(all_equal(pieces[i], expected[i].to_vector())) << "piece " << i;
      }
    });
  }
}

// Each of them trains without a message. The right step is equal to rounding; these are nowhere near.
TEST_F(WholeMatricesTest, StepsOfPartsAreOtherSteps) {
  constexpr std::size_t kRanks = 4;
  const std::size_t rows = 4 * random.between(3, 6);
  const std::size_t columns = 4 * random.between(3, 6);
  std::vector<Tensor> gradients;  // of each rank
  const Tensor sum = Tensor::zeros(device, {rows, columns}, DType::kF64);
  const Tensor not_summed = sum.clone();
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    const Tensor own = random.tensor(device, {rows, columns}, DType::kF64);
    ops::add_into(sum, own);
    ops::add_into(not_summed, orthogonalized(own));
  }
  ops::scale_into(not_summed, 1.0 / kRanks);
  const Tensor expected = orthogonalized(sum);
  const Tensor flat_slices = sum.clone();
  const Tensor column_shards = sum.clone();
  const std::size_t slice = rows * columns / kRanks;
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    optim::newton_schulz(flat_slices.view({kRanks, slice}).slice(0, {rank, rank + 1}));
    const Tensor columns_of_rank =
        column_shards.slice(1, {rank * columns / kRanks, (rank + 1) * columns / kRanks});
    columns_of_rank.copy_from(orthogonalized(columns_of_rank));
  }
  EXPECT_GT(distance(flat_slices, expected), 0.3);
  EXPECT_GT(distance(column_shards, expected), 0.3);
  EXPECT_GT(distance(not_summed, expected), 0.3);
}

}  // namespace
}  // namespace ultra::zero

// Muon with every stage of ZeRO: the matrices are whole where their Newton-Schulz steps are computed, so
// training is that of plain data parallelism, bit for bit.
//
// Covers: chapters/04_zero/whole_matrices/whole_matrices.hpp, common/optim/matrix_exchange.hpp

#include "chapters/04_zero/whole_matrices/matrix_owners.hpp"
#include "chapters/04_zero/whole_matrices/whole_matrices.hpp"
#include "common/base/numeric.hpp"
#include "common/ops/elementwise.hpp"
#include "common/optim/newton_schulz.hpp"
#include "common/optim/rules.hpp"
#include "tests/chapters/04_zero/zero_run.hpp"
#include "tests/support/ranks/on_ranks.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using namespace zero::test;

class MuonTraining : public ZeroTest {
 protected:
  /// Three steps with Muon, the micro-batches of a share in one; all matrices whole at once, or some.
  ZeroCase draw_muon(int ranks, ZeroStage stage, DType dtype) {
    ZeroCase c = draw(ranks, stage, dtype);
    c.options.optimizer = "muon";
    c.options.steps = 3;
    c.micro_batch = c.largest_share();
    c.matrices_at_once = random.between(0, 3);
    return c;
  }

  /// A rank's elements, of all that a predicate takes.
  template <class Taken>
  static std::size_t elements(const std::vector<ParameterGroup>& groups, int rank, Taken taken) {
    std::size_t count = 0;
    for (const ParameterGroup& group : groups) {
      for (const Piece& piece : group.pieces(rank)) {
        if (taken(*group.parameters[piece.tensor])) count += piece.elements.size();
      }
    }
    return count;
  }

  static bool is_matrix(const nn::Parameter& parameter) {
    return train::weight_kind(parameter) == optim::WeightKind::kMatrix;
  }
};

TEST_F(MuonTraining, IsPlainDataParallelismBitForBitInEveryStage) {
  for (const int ranks : {1, 2, 3, 4, 5}) {
    for (const ZeroStage stage : kSharded) {
      ZeroCase c = draw_muon(ranks, stage, random.pick({DType::kF32, DType::kF64}));
      // Squares add up in another order: the norm's last bit, and with it the factor of f64, may differ.
      if (c.options.dtype == DType::kF64) c.options.clip_norm = 0;
      on_ranks(c, [&](Communicator& dp) {
        SCOPED_TRACE(c.str());
        expect_same_bits(run_zero(dp, c), run_plain(dp, c));
      });
    }
  }
}

// A matrix has one number of state for each element, all else two; a rank has those of its shards.
TEST_F(MuonTraining, StatesTakeTheirBytesAndNoMore) {
  for (const int ranks : {2, 3}) {
    for (const ZeroStage stage : kSharded) {
      const ZeroCase c = draw_muon(ranks, stage, DType::kF32);
      on_ranks(c, [&](Communicator& dp) {
        nn::DenseFactory factory;
        nn::Model model = deferred_model(c, factory);
        const auto groups = groups_of(model, c);
        const std::size_t all =
            elements(groups, dp.rank(), [](const nn::Parameter&) { return true; });
        const std::size_t matrices = elements(groups, dp.rank(), is_matrix);
        const train::TrainResult result = train_zero(dp, c);
        const auto& rank = result.ranks.at(static_cast<std::size_t>(dp.rank()));
        EXPECT_EQ(rank.memory.peak(MemoryCategory::kOptimizer).bytes, 4 * (2 * all - matrices))
            << c.str();
      });
    }
  }
}

// What the owner of a matrix lacks travels to it, and back.
TEST_F(MuonTraining, SendsWhatOwnersLackTwice) {
  for (const int ranks : {2, 3, 4}) {
    for (const ZeroStage stage : kSharded) {
      const ZeroCase c = draw_muon(ranks, stage, DType::kF64);
      on_ranks(c, [&](Communicator& dp) {
        nn::DenseFactory factory;
        nn::Model model = deferred_model(c, factory);
        const auto groups = groups_of(model, c);
        std::vector<const nn::Parameter*> matrices;
        std::vector<std::size_t> costs;
        for (const ParameterGroup& group : groups) {
          for (const nn::Parameter* parameter : group.parameters) {
            if (!is_matrix(*parameter)) continue;
            matrices.push_back(parameter);
            costs.push_back(
                optim::newton_schulz_flops(parameter->shape()[0], parameter->shape()[1]));
          }
        }
        const std::vector<int> owners = matrix_owners(costs, ranks);
        std::size_t sent = 0;
        for (std::size_t m = 0; m < matrices.size(); ++m) {
          const std::size_t here = elements(
              groups, dp.rank(), [&](const nn::Parameter& p) { return &p == matrices[m]; });
          sent += owners[m] == dp.rank() ? matrices[m]->count() - here : here;
        }
        const train::TrainResult result = train_zero(dp, c);
        const auto& rank = result.ranks.at(static_cast<std::size_t>(dp.rank()));
        EXPECT_EQ(rank.communication[OpKind::kAllToAll].sent_bytes, c.options.steps * sent * 8)
            << c.str();
      });
    }
  }
}

// The exchange by itself: matrices in parts of every kind, and the mistakes that it is there to avoid.

/// A matrix, and who has which part of it.
struct CutMatrix {
  Tensor whole;
  std::vector<std::optional<MatrixPart>> parts;  // empty: all have all of it
};

class WholeMatricesTest : public RandomTest {
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

}  // namespace
}  // namespace ultra::zero

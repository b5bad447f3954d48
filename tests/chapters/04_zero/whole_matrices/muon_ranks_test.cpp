// Muon with every stage of ZeRO: the matrices are whole where their Newton-Schulz steps are computed, so
// training is that of plain data parallelism, bit for bit, and that of one rank.
//
// Covers: chapters/04_zero/whole_matrices/whole_matrices.hpp, common/optim/matrix_exchange.hpp

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "chapters/04_zero/whole_matrices/matrix_owners.hpp"
#include "chapters/04_zero/whole_matrices/whole_matrices.hpp"
#include "common/optim/newton_schulz.hpp"
#include "common/optim/rules.hpp"
#include "tests/chapters/04_zero/zero_run.hpp"
#include "tests/support/compare.hpp"

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

TEST_F(MuonTraining, IsThatOfOneRank) {
  for (const auto& [ranks, node] : {std::pair{2, 2}, {3, 3}, {4, 2}, {6, 3}}) {
    ZeroCase c =
        draw_muon(ranks, random.pick({kSharded[0], kSharded[1], kSharded[2]}), DType::kF64);
    c.micro_batch = random.between(1, 2);
    if (node != ranks) c.node_size = static_cast<std::size_t>(node);
    on_ranks(c, [&](Communicator& dp) {
      SCOPED_TRACE(c.str());
      const ZeroRun run = run_zero(dp, c);
      const RankRun one = run_alone(dp, c.options);
      expect_near_losses(run, one, 1e-10);
      expect_near_norms(run, one, 1e-10);
      expect_near_weights(run, one, 1e-10);
      expect_same_on_all(dp, losses_and_norms(run.result));
    });
  }
}

/// Muon of whatever a rank has at hand: the mistake.
class OfPieces final : public optim::UpdateRule {
 public:
  optim::StateSpecs states(optim::WeightKind kind) const override { return muon_->states(kind); }
  void apply(std::size_t i, const optim::TensorUpdate& update, std::span<const Tensor> states,
             const optim::StepConstants& step) const override {
    if (states.size() > 1) return muon_->apply(i, update, states, step);
    optim::TensorUpdate along = update;
    along.grad = muon_->direction(i, update, states, step);
    muon_->transform(along.grad.view({1, along.grad.numel()}));
    muon_->step_along(i, along, step);
  }

 private:
  optim::Rule muon_ = optim::make_rule("muon");
};

// It learns, and nothing says so but the comparison with one rank.
TEST_F(MuonTraining, OfFlatSlicesIsAnotherTraining) {
  const ZeroCase c =
      draw_muon(3, random.pick({kSharded[0], kSharded[1], kSharded[2]}), DType::kF64);
  on_ranks(c, [&](Communicator& dp) {
    const train::TrainResult wrong =
        train_zero(dp, c, {.rule = std::make_shared<const OfPieces>()});
    const RankRun one = run_alone(dp, c.options);
    const double found = wrong.steps.back().loss;
    const double expected = one.result.steps.back().loss;
    EXPECT_GT(std::abs(found / expected - 1), 1e-8) << "the tests before allow 1e-10";
  });
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

}  // namespace
}  // namespace ultra::zero

#include "chapters/04_zero/checkpoints/training_state.hpp"

#include <map>

#include "tests/chapters/04_zero/checkpoints/checkpoint_faults.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using namespace zero::test;

/// One element after the other: weights and moments that no two elements share.
double value_of(std::size_t parameter, std::size_t element, int kind) {
  return static_cast<double>(parameter) * 1e5 + static_cast<double>(element) + 0.25 * kind;
}

class TrainingStateTest : public ZeroTest {
 protected:
  using Fn = std::function<void(const Communicator&, TrainingState&, const nn::Model&)>;

  /// Calls `fn` with the state of a sharded model, in each stage.
  void on_sharded(std::optional<std::size_t> node_size, const Fn& fn) {
    for (const ZeroStage stage : kSharded) {
      ZeroCase c = draw(4, stage, DType::kF64);
      c.node_size = node_size;
      on_state(c, {}, fn);
    }
  }

  void on_replicas(int ranks, const Fn& fn) {
    StageChanges changes;
    changes.exchange = [](const train::StatesScope&) { return nullptr; };
    on_state(draw(ranks, ZeroStage::kOptimizer, DType::kF64), changes, fn);
  }

  /// Calls `fn` with the state of a training that makes no steps.
  static void on_state(ZeroCase c, const StageChanges& changes, const Fn& fn) {
    struct Idle : train::Worker {
      train::StepOutcome step(const train::StepPlan&) override { return {1.0, 1.0}; }
      std::size_t parameter_count() const override { return 0; }
    };
    c.options.steps = 1;
    on_ranks(c, [&](Communicator& dp) {
      StageChanges own = changes;
      own.worker = [&](std::unique_ptr<train::Worker> worker, const train::TrainerState& trainer) {
        TrainingState state(trainer);
        fn(dp, state, *dynamic_cast<train::ModelWorker&>(*worker).chunks().front());
        return std::make_unique<Idle>();
      };
      static_cast<void>(train_zero(dp, c, own));
    });
  }

  static std::size_t number_of(const nn::Model& model, const nn::Parameter* parameter) {
    const auto all = model.parameters();
    return static_cast<std::size_t>(std::find(all.begin(), all.end(), parameter) - all.begin());
  }

  /// Fills a piece as if a file held value_of. In place, so that it works for views.
  static void fill(const nn::Model& model, const train::OwnedPiece& piece,
                   const PieceValues& values) {
    const std::size_t parameter = number_of(model, piece.parameter);
    const Tensor tensors[] = {values.weights, values.states[0], values.states[1]};
    for (int kind = 0; kind < 3; ++kind) {
      EXPECT_EQ(tensors[kind].shape(), Shape({piece.elements.size()}));
      const std::span<double> out = tensors[kind].span<double>();
      for (std::size_t e = 0; e < out.size(); ++e) {
        out[e] = value_of(parameter, piece.elements.begin + e, kind);
      }
    }
  }

  /// What has been loaded is what is copied, and the model has it. Collective.
  static void expect_loads(const Communicator&, TrainingState& state, const nn::Model& model) {
    state.load(17, [&](std::size_t i, const PieceValues& values) {
      fill(model, state.pieces()[i], values);
    });
    EXPECT_EQ(state.optimizer_steps(), 17);
    for (std::size_t i = 0; i < state.pieces().size(); ++i) {
      const PieceValues copied = state.copy(i);
      const PieceValues expected{.weights = copied.weights.clone(),
                                 .states = {copied.states[0].clone(), copied.states[1].clone()}};
      fill(model, state.pieces()[i], expected);
      EXPECT_EQ(copied.weights.to_vector(), expected.weights.to_vector());
      EXPECT_EQ(copied.states[0].to_vector(), expected.states[0].to_vector());
      EXPECT_EQ(copied.states[1].to_vector(), expected.states[1].to_vector());
    }
    for (std::size_t p = 0; p < model.parameters().size(); ++p) {
      const nn::Parameter& parameter = *model.parameters()[p];
      if (!parameter.has_value()) continue;  // stage 3
      const std::vector<double> weights = parameter.value().to_vector();
      for (std::size_t e = 0; e < weights.size(); ++e) {
        ASSERT_EQ(weights[e], value_of(p, e, 0)) << "all ranks have all weights";
      }
    }
  }
};

TEST_F(TrainingStateTest, WhatIsLoadedIsWhatIsThere) {
  for (const std::size_t node_size : {1U, 2U, 4U}) on_sharded(node_size, expect_loads);
  for (const int ranks : {1, 3}) on_replicas(ranks, expect_loads);
}

/// No rank of replicas writes more than its share and the largest parameter.
TEST_F(TrainingStateTest, ReplicasShareTheSaving) {
  for (const int ranks : {1, 2, 3, 5}) {
    on_replicas(ranks,
                [ranks](const Communicator&, const TrainingState& state, const nn::Model& model) {
                  std::size_t own = 0;
                  std::size_t all = 0;
                  std::size_t largest = 0;
                  for (std::size_t i = 0; i < state.pieces().size(); ++i) {
                    const std::size_t size = state.pieces()[i].elements.size();
                    own += state.saves(i) ? size : 0;
                    all += size;
                    largest = std::max(largest, size);
                  }
                  EXPECT_EQ(state.pieces().size(), model.parameters().size());
                  EXPECT_LE(own, all / static_cast<std::size_t>(ranks) + largest);
                });
  }
}

TEST_F(TrainingStateTest, ACopyDoesNotChangeAnyMore) {
  on_replicas(1, [](const Communicator&, TrainingState& state, const nn::Model& model) {
    state.load(1, [&](std::size_t i, const PieceValues& values) {
      fill(model, state.pieces()[i], values);
    });
    const PieceValues copied = state.copy(0);
    const std::vector<double> before = copied.weights.to_vector();
    model.parameters()[0]->value().fill(3.0);
    EXPECT_EQ(copied.weights.to_vector(), before);
    EXPECT_EQ(state.copy(0).weights.to_vector(), std::vector<double>(before.size(), 3.0));
  });
}

}  // namespace
}  // namespace ultra::zero

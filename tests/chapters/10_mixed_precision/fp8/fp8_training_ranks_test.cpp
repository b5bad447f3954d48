// Training in fp8: however matrices, sequences, layers and batches are dealt out to ranks, the scales
// are those of the whole tensors, and the ranks compute what one rank computes.
//
// Covers: chapters/10_mixed_precision/fp8/fp8_linear.hpp
// Covers: chapters/10_mixed_precision/fp8/fp8_factory.hpp
// Covers: chapters/10_mixed_precision/fp8/amax_observer.hpp

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "chapters/10_mixed_precision/fp8/fp8_linear.hpp"
#include "tests/chapters/10_mixed_precision/fp8/fp8_run.hpp"

namespace ultra::mixed_precision {
namespace {

using namespace mixed_precision::test;

constexpr Scaling kRecipes[] = {Scaling::kDelayed, Scaling::kCurrent, Scaling::kBlockwise};

class Fp8Training : public Fp8Test {
 protected:
  Scaling any_recipe() {
    return random.pick({Scaling::kDelayed, Scaling::kCurrent, Scaling::kBlockwise});
  }
};

TEST_F(Fp8Training, SplitMatricesAndSequences) {
  for (const Scaling scaling : kRecipes) {
    expect_equals_one_rank(draw({.tp = 2}, scaling));
    MeshCase c = draw({.tp = 4}, scaling);
    c.more = "--sp on";
    expect_equals_one_rank(c);
    expect_equals_one_rank(draw({.cp = 2}, scaling));
  }
}

TEST_F(Fp8Training, BatchesAndStatesOfEveryStageOfZero) {
  for (int stage = 0; stage <= 3; ++stage) {
    MeshCase c = draw({.dp = random.pick({2U, 3U})}, any_recipe());
    c.more = fmt::format("--zero {} --overlap {}", stage, random.pick({"none", "bucketed"}));
    expect_equals_one_rank(c);
  }
}

TEST_F(Fp8Training, StagesOfAPipeline) {
  for (const char* schedule : {"afab", "1f1b", "zero-bubble-h1", "zb-v"}) {
    MeshCase c = draw({.pp = 2, .tp = random.pick({1U, 2U})}, any_recipe());
    c.more = fmt::format("--schedule {}", schedule);
    expect_equals_one_rank(c);
  }
}

TEST_F(Fp8Training, Meshes) {
  for (const Axes& axes : {Axes{.dp = 2, .pp = 2, .cp = 2}, Axes{.dp = 2, .cp = 2, .tp = 2},
                           Axes{.pp = 2, .cp = 2, .tp = 2}}) {
    MeshCase c = draw(axes, any_recipe());
    c.options.steps = 3;
    c.more = fmt::format("--zero {}{}", random.between(0, 3), axes.tp > 1 ? " --sp on" : "");
    expect_equals_one_rank(c);
  }
}

// In fp8 where scales are of tiles; else they stay in the type of the activations.
TEST_F(Fp8Training, ExpertsOnAllRanks) {
  for (const Scaling scaling : kRecipes) {
    MeshCase c = draw({.dp = 2, .tp = 2}, scaling);
    c.model = "--experts 4 --top-k 2 --router sigmoid --balance bias --bias-rate 0.1";
    c.axes.ep = 2;
    expect_equals_one_rank(c);
  }
  MeshCase c = draw({.dp = 2, .cp = 2}, Scaling::kBlockwise);
  c.model = "--experts 8 --top-k 2 --shared-experts 1";
  c.axes.ep = 4;
  c.more = fmt::format("--zero {}", random.between(0, 3));
  expect_equals_one_rank(c);
}

// 150 features of an expert on each rank: two ranks have parts of the same tile.
TEST_F(Fp8Training, TilesOfExpertsThatAreCut) {
  MeshCase c = draw({.tp = 2}, Scaling::kBlockwise);
  c.model = "--experts 3 --top-k 1 --expert-ffn 300";
  c.options.steps = 3;
  expect_equals_one_rank(c);
}

TEST_F(Fp8Training, ExpertsThatAreRecomputed) {
  for (const char* mode : {"selective", "full"}) {
    MeshCase c = draw({}, Scaling::kBlockwise);
    c.model = "--experts 4 --top-k 2 --shared-experts 1";
    c.more = fmt::format("--recompute {}", mode);
    expect_equals_one_rank(c, 0);
  }
}

TEST_F(Fp8Training, RecomputationChangesNothing) {
  for (const char* mode : {"selective", "full"}) {
    for (const Scaling scaling : kRecipes) {
      MeshCase c = draw({}, scaling);
      c.more = fmt::format("--recompute {}", mode);
      expect_equals_one_rank(c, 0);
    }
  }
}

/// A tensor of each layer overflows in the second step, on one rank.
class OverflowsOnce : public train::Technique {
 public:
  void configure_step(train::StepConfig& step_config, const train::Setup&) const override {
    step_config.observers.insert(step_config.observers.begin(), [](const train::ModelScope& scope) {
      return std::make_unique<Planter>(scope.chunks, scope.context.world.rank() == 1);
    });
  }

 private:
  class Planter : public train::StepObserver {
   public:
    Planter(std::vector<nn::Model*> chunks, bool plants)
        : chunks_(std::move(chunks)), plants_(plants) {}
    void step_ends(const train::StepPlan& plan) override {
      if (!plants_ || plan.step != 2) return;
      for (nn::Model* chunk : chunks_) {
        for (nn::Parameter* parameter : chunk->parameters()) {
          if (!parameter->name().ends_with(kHistorySuffix)) continue;
          parameter->value().slice(0, {0, 1}).fill(std::numeric_limits<double>::infinity());
        }
      }
    }

   private:
    std::vector<nn::Model*> chunks_;
    bool plants_;
  };
};

// In a history it would make scales of 1, for as long as it is there.
TEST_F(Fp8Training, AnOverflowIsNoMaximumOfAHistory) {
  MeshCase c = draw({.dp = 2}, Scaling::kDelayed);
  c.techniques = in_fp8({.scaling = Scaling::kDelayed, .history = 3});
  c.options.steps = 3;
  on_mesh(c, [&](Communicator& world) {
    train::Setup setup = c.setup();
    setup.techniques.push_back(std::make_unique<OverflowsOnce>());
    const RankRun run = ultra::test::run_of(std::move(setup), world);
    for (const std::vector<double>& weights : run.weights) {
      EXPECT_TRUE(std::ranges::all_of(weights, [](double x) { return std::isfinite(x); }));
    }
  });
}

// Tiles that several ranks have parts of: their scales are those of whole tiles.
TEST_F(Fp8Training, TilesThatAreCut) {
  MeshCase c = draw({.tp = 2}, Scaling::kBlockwise);
  c.options.model.num_heads = c.options.model.num_kv_heads = 2;
  c.options.model.hidden_size = 2 * 2 * 41;   // 82 of a tile of 128 on each rank
  c.options.model.ffn_hidden_size = 2 * 150;  // and 150 of three tiles
  c.options.steps = 3;
  expect_equals_one_rank(c);
}

// Without fp8 a model learns a little better, not much.
TEST_F(Fp8Training, LearnsNearlyAsWellAsWithoutFp8) {
  const auto last_loss = [&](const ultra::test::MakeTechniques& techniques) {
    MeshCase c{.micro_batch = 4, .options = ultra::test::short_run(), .techniques = techniques};
    c.options.steps = 40;
    c.options.dtype = DType::kF32;
    double loss = 0;
    on_mesh(c, [&](Communicator& world) {
      const train::TrainResult result = train::train_with(c.setup(), world);
      for (std::size_t i = result.steps.size() - 5; i < result.steps.size(); ++i) {
        loss += result.steps[i].loss / 5;
      }
    });
    return loss;
  };
  const double plain = last_loss(expert_parallel::test::techniques);
  for (const Scaling scaling : kRecipes) {
    EXPECT_NEAR(last_loss(in_fp8({.scaling = scaling})), plain, 0.03 * plain);
  }
}

}  // namespace
}  // namespace ultra::mixed_precision

// Training in fp8: however matrices, sequences, layers and batches are dealt out to ranks, the scales
// are those of the whole tensors, and the ranks compute what one rank computes.
//
// Covers: chapters/10_mixed_precision/fp8/fp8_linear.hpp
// Covers: chapters/10_mixed_precision/fp8/fp8_factory.hpp
// Covers: chapters/10_mixed_precision/fp8/amax_observer.hpp

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
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
    expect_equals_one_rank(draw(1, 1, 1, 2, scaling));
    Fp8Case c = draw(1, 1, 1, 4, scaling);
    c.more = "--sp on";
    expect_equals_one_rank(c);
    expect_equals_one_rank(draw(1, 1, 2, 1, scaling));
  }
}

TEST_F(Fp8Training, BatchesAndStatesOfEveryStageOfZero) {
  for (int stage = 0; stage <= 3; ++stage) {
    Fp8Case c = draw(random.pick({2, 3}), 1, 1, 1, any_recipe());
    c.more = fmt::format("--zero {} --overlap {}", stage, random.pick({"none", "bucketed"}));
    expect_equals_one_rank(c);
  }
}

TEST_F(Fp8Training, StagesOfAPipeline) {
  for (const char* schedule : {"afab", "1f1b", "zero-bubble-h1", "zb-v"}) {
    Fp8Case c = draw(1, 2, 1, random.pick({1, 2}), any_recipe());
    c.more = fmt::format("--schedule {}", schedule);
    expect_equals_one_rank(c);
  }
}

TEST_F(Fp8Training, Meshes) {
  using Mesh = std::array<int, 4>;  // dp, pp, cp, tp
  for (const auto& [dp, pp, cp, tp] : std::vector<Mesh>{{2, 2, 2, 1}, {2, 1, 2, 2}, {1, 2, 2, 2}}) {
    Fp8Case c = draw(dp, pp, cp, tp, any_recipe());
    c.options.steps = 3;
    c.more = fmt::format("--zero {}{}", random.between(0, 3), tp > 1 ? " --sp on" : "");
    expect_equals_one_rank(c);
  }
}

// In fp8 where scales are of tiles; else they stay in the type of the activations.
TEST_F(Fp8Training, ExpertsOnAllRanks) {
  for (const Scaling scaling : kRecipes) {
    Fp8Case c = draw(2, 1, 1, 2, scaling);
    c.moe = "--experts 4 --top-k 2 --router sigmoid --balance bias --bias-rate 0.1";
    c.more = "--ep 2";
    expect_equals_one_rank(c);
  }
  Fp8Case c = draw(2, 1, 2, 1, Scaling::kBlockwise);
  c.moe = "--experts 8 --top-k 2 --shared-experts 1";
  c.more = fmt::format("--ep 4 --zero {}", random.between(0, 3));
  expect_equals_one_rank(c);
}

// 150 features of an expert on each rank: two ranks have parts of the same tile.
TEST_F(Fp8Training, TilesOfExpertsThatAreCut) {
  Fp8Case c = draw(1, 1, 1, 2, Scaling::kBlockwise);
  c.moe = "--experts 3 --top-k 1 --expert-ffn 300";
  c.options.steps = 3;
  expect_equals_one_rank(c);
}

TEST_F(Fp8Training, ExpertsThatAreRecomputed) {
  for (const char* mode : {"selective", "full"}) {
    Fp8Case c = draw(1, 1, 1, 1, Scaling::kBlockwise);
    c.moe = "--experts 4 --top-k 2 --shared-experts 1";
    c.more = fmt::format("--recompute {}", mode);
    expect_equals_one_rank(c, 0);
  }
}

TEST_F(Fp8Training, RecomputationChangesNothing) {
  for (const char* mode : {"selective", "full"}) {
    for (const Scaling scaling : kRecipes) {
      Fp8Case c = draw(1, 1, 1, 1, scaling);
      c.more = fmt::format("--recompute {}", mode);
      expect_equals_one_rank(c, 0);
    }
  }
}

/// A tensor of each layer overflows in the second step, on one rank.
class OverflowsOnce : public train::Technique {
 public:
  void join(train::Ingredients& ingredients, const train::Setup&) const override {
    ingredients.observers.insert(ingredients.observers.begin(), [](const train::ModelScope& scope) {
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
  Fp8Case c = draw(2, 1, 1, 1, Scaling::kDelayed);
  c.recipe.history = 3;
  c.options.steps = 3;
  on_mesh(c, [&](Communicator& world) {
    train::Setup setup = c.setup();
    setup.techniques.push_back(std::make_unique<OverflowsOnce>());
    const ultra::test::RankRun run = ultra::test::run_of(std::move(setup), world);
    for (const std::vector<double>& weights : run.weights) {
      EXPECT_TRUE(std::ranges::all_of(weights, [](double x) { return std::isfinite(x); }));
    }
  });
}

// Tiles that several ranks have parts of: their scales are those of whole tiles.
TEST_F(Fp8Training, TilesThatAreCut) {
  Fp8Case c = draw(1, 1, 1, 2, Scaling::kBlockwise);
  c.options.model.num_heads = c.options.model.num_kv_heads = 2;
  c.options.model.hidden_size = 2 * 2 * 41;   // 82 of a tile of 128 on each rank
  c.options.model.ffn_hidden_size = 2 * 150;  // and 150 of three tiles
  c.options.steps = 3;
  expect_equals_one_rank(c);
}

// Without fp8 a model learns a little better, not much.
TEST_F(Fp8Training, LearnsNearlyAsWellAsWithoutFp8) {
  const auto last_loss = [&](std::optional<Fp8Recipe> recipe) {
    Fp8Case c{.micro_batch = 4, .options = ultra::test::short_run()};
    c.options.steps = 40;
    c.options.dtype = DType::kF32;
    double loss = 0;
    on_mesh(c, [&](Communicator& world) {
      if (recipe) c.recipe = *recipe;
      train::Setup setup = c.setup();
      if (!recipe) setup.techniques.erase(setup.techniques.end() - 2);
      const train::TrainResult result = train::train_with(std::move(setup), world);
      for (std::size_t i = result.steps.size() - 5; i < result.steps.size(); ++i) {
        loss += result.steps[i].loss / 5;
      }
    });
    return loss;
  };
  const double plain = last_loss({});
  for (const Scaling scaling : kRecipes) {
    EXPECT_NEAR(last_loss(Fp8Recipe{.scaling = scaling}), plain, 0.03 * plain);
  }
}

}  // namespace
}  // namespace ultra::mixed_precision

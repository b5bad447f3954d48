// Training in fp8: however matrices, sequences, layers and batches are dealt out to ranks, the scales
// are those of the whole tensors, and the ranks compute what one rank computes.
//
// Covers: chapters/10_mixed_precision/fp8/fp8_linear.hpp
// Covers: chapters/10_mixed_precision/fp8/fp8_factory.hpp

#include "chapters/10_mixed_precision/fp8/fp8_factory.hpp"
#include "chapters/10_mixed_precision/fp8/fp8_linear.hpp"
#include "tests/chapters/10_mixed_precision/precision_run.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::mixed_precision {
namespace {

using namespace mixed_precision::test;

/// @brief Linear layers in fp8, in whatever type the rest has.
class InFp8 : public train::Technique {
 public:
  explicit InFp8(const Fp8Recipe& recipe) : recipe_(recipe) {}

  void configure_plan(train::Plan& plan, const train::Setup&) const override {
    add_fp8_groups(plan, recipe_);
  }
  void wrap_layers(train::FactoryStack& factories, const train::Plan& plan,
                   const train::Setup&) const override {
    factories.push_back(std::make_unique<Fp8Factory>(*factories.back(), fp8_scope(recipe_, plan)));
  }
  void configure_step(train::StepConfig& step_config, const train::Setup&) const override {
    step_config.observers.emplace_back(
        [recipe = recipe_](const train::ModelScope& scope) { return observe_fp8(scope, recipe); });
  }

 private:
  Fp8Recipe recipe_;
};

/// @brief The techniques of chapter 08's program, with linear layers in fp8.
ultra::test::MakeTechniques in_fp8(const Fp8Recipe& recipe) {
  return [recipe] {
    train::Techniques list = expert_parallel::test::techniques();
    list.push_back(std::make_unique<InFp8>(recipe));
    return list;
  };
}

/// @brief Random small runs in fp8.
class Fp8Test : public ultra::test::MeshTest {
 protected:
  /// Sequences divide, so that no rank has tokens of padding, whose numbers would count as others'.
  MeshCase draw(const Axes& axes, Scaling scaling) {
    MeshCase c = draw_even(random, seed, axes, DType::kF64, {.most_head_pairs = 8, .most_ffn = 60});
    c.techniques = in_fp8({.scaling = scaling, .history = random.between(1, 3)});
    c.note = fmt::format("scaling {}", static_cast<int>(scaling));
    return c;
  }

  /// Losses, norms and weights, with the histories, within a relative distance of one rank's.
  ///
  /// A number in the middle between two of fp8, to the last bit, is rounded up or down by the order
  /// of the sum that made it. From there on two right runs differ a little. Which numbers lie there
  /// hangs on the weights, so a run that begins to differ so little is made once more with other weights.
  static void expect_equals_one_rank(const MeshCase& c, double relative = 1e-9) {
    on_mesh(c, [&](Communicator& world) {
      MeshCase tried = c;
      RankRun run = tried.run(world);
      RankRun one = tried.run_alone(world);
      if (const double distance = first_distance(run, one, relative);
          distance > 0 && distance < kOfARounding) {
        ++tried.options.seed;
        run = tried.run(world);
        one = tried.run_alone(world);
      }
      expect_equals(world, run, one, relative);
    });
  }

 private:
  static constexpr double kOfARounding = 1e-3;

  /// The first relative distance of losses and norms that exceeds `relative`, or 0; later ones have grown
  /// from it. All ranks have the same.
  static double first_distance(const RankRun& run, const RankRun& one, double relative) {
    const std::vector<double> a = losses_and_norms(run.result);
    const std::vector<double> b = losses_and_norms(one.result);
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      const double distance = std::abs(a[i] - b[i]) / std::abs(b[i]);
      if (distance > relative) return distance;
    }
    return 0;
  }
};

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

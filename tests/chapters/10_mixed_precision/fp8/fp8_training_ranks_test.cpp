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
class Fp8Training : public ultra::test::MeshTest {
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

TEST_F(Fp8Training, SplitMatricesAndSequences) {
  for (const Scaling scaling : kRecipes) {
    expect_equals_one_rank(draw({.tp = 2}, scaling));
    MeshCase c = draw({.tp = 4}, scaling);
    c.more = "--sp on";
    expect_equals_one_rank(c);
    expect_equals_one_rank(draw({.cp = 2}, scaling));
  }
}

TEST_F(Fp8Training, BatchesStagesAndMeshes) {
  struct Layout {
    Axes axes;
    const char* flags;
  };
  const Layout layouts[] = {{{.dp = 3}, "--overlap bucketed"},
                            {{.dp = 2}, "--zero 1 --overlap bucketed"},
                            {{.dp = 3}, "--zero 2 --overlap none"},
                            {{.dp = 2}, "--zero 3"},
                            {{.pp = 2, .tp = 2}, "--schedule afab"},
                            {{.pp = 2}, "--schedule 1f1b"},
                            {{.pp = 2, .tp = 2}, "--schedule zero-bubble-h1"},
                            {{.pp = 2}, "--schedule zb-v"},
                            {{.dp = 2, .pp = 2, .cp = 2}, "--zero 1"},
                            {{.dp = 2, .cp = 2, .tp = 2}, "--zero 3 --sp on"},
                            {{.pp = 2, .cp = 2, .tp = 2}, "--sp on"}};
  for (const Layout& layout : layouts) {
    MeshCase c = draw(layout.axes, random.pick({kRecipes[0], kRecipes[1], kRecipes[2]}));
    c.options.steps = 3;
    c.more = layout.flags;
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

TEST_F(Fp8Training, RecomputationChangesNothing) {
  for (const char* mode : {"selective", "full"}) {
    for (const char* experts : {"", "--experts 4 --top-k 2 --shared-experts 1"}) {
      for (const Scaling scaling : kRecipes) {
        if (*experts != 0 && scaling != Scaling::kBlockwise) continue;
        MeshCase c = draw({}, scaling);
        c.model = experts;
        c.more = fmt::format("--recompute {}", mode);
        expect_equals_one_rank(c, 0);
      }
    }
  }
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

}  // namespace
}  // namespace ultra::mixed_precision

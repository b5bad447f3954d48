#pragma once
/// @file
/// Training runs whose linear layers compute in fp8, on meshes, and the run that they must equal.
///
/// What stands on the grid of fp8 does so in f64: so all sums are those of f64, and two layouts can be
/// compared as closely as without fp8, unless one number is rounded to another side: see
/// Fp8Test::expect_equals_one_rank().

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "chapters/10_mixed_precision/fp8/amax_observer.hpp"
#include "chapters/10_mixed_precision/fp8/fp8_factory.hpp"
#include "tests/chapters/10_mixed_precision/precision_run.hpp"

namespace ultra::mixed_precision::test {

using namespace ultra::test;

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
inline ultra::test::MakeTechniques in_fp8(const Fp8Recipe& recipe) {
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
  /// hangs on the weights, so a run that differs so little is made once more with other weights.
  static void expect_equals_one_rank(const MeshCase& c, double relative = 1e-9) {
    on_mesh(c, [&](Communicator& world) {
      MeshCase tried = c;
      RankRun run = tried.run(world);
      RankRun one = tried.run_alone(world);
      if (const double distance = distance_between(run, one);
          distance > relative && distance < kOfARounding) {
        ++tried.options.seed;
        run = tried.run(world);
        one = tried.run_alone(world);
      }
      expect_equals(world, run, one, relative);
    });
  }

 private:
  static constexpr double kOfARounding = 1e-3;

  /// The largest relative distance of losses and norms, which is the same on all ranks.
  static double distance_between(const RankRun& run, const RankRun& one) {
    const std::vector<double> a = losses_and_norms(run.result);
    const std::vector<double> b = losses_and_norms(one.result);
    double largest = 0;
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      largest = std::max(largest, std::abs(a[i] - b[i]) / std::abs(b[i]));
    }
    return largest;
  }
};

}  // namespace ultra::mixed_precision::test

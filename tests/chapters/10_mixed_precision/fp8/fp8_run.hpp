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
#include <string>
#include <utility>
#include <vector>

#include "chapters/03_data_parallel/data_parallel.hpp"
#include "chapters/04_zero/zero.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel.hpp"
#include "chapters/06_context_parallel/context_parallel.hpp"
#include "chapters/07_pipeline_parallel/pipeline_parallel.hpp"
#include "chapters/08_expert_parallel/expert_parallel.hpp"
#include "chapters/10_mixed_precision/fp8/amax_observer.hpp"
#include "chapters/10_mixed_precision/fp8/fp8_factory.hpp"
#include "common/base/numeric.hpp"
#include "tests/chapters/03_data_parallel/mesh_run.hpp"

namespace ultra::mixed_precision::test {

/// @brief Linear layers in fp8, in whatever type the rest has.
class InFp8 : public train::Technique {
 public:
  explicit InFp8(const Fp8Recipe& recipe) : recipe_(recipe) {}

  void change_plan(train::Plan& plan, const train::Setup&) const override {
    add_fp8_groups(plan, recipe_);
  }
  void wrap(train::FactoryStack& factories, const train::Plan& plan,
            const train::Setup&) const override {
    factories.push_back(std::make_unique<Fp8Factory>(*factories.back(), fp8_scope(recipe_, plan)));
  }
  void join(train::Ingredients& ingredients, const train::Setup&) const override {
    ingredients.observers.emplace_back(
        [recipe = recipe_](const train::ModelScope& scope) { return observe_fp8(scope, recipe); });
  }

 private:
  Fp8Recipe recipe_;
};

/// @brief A run on a mesh.
struct Fp8Case {
  int dp = 1;
  int pp = 1;
  int cp = 1;
  int tp = 1;
  std::string more = {};        ///< flags of the layout
  std::string moe = {};         ///< flags of experts, the same on every layout
  std::size_t micro_batch = 1;  ///< of a replica, and of the run on one rank
  Fp8Recipe recipe = {};
  train::TrainOptions options = {};

  [[nodiscard]] int ranks() const { return dp * pp * cp * tp; }
  [[nodiscard]] std::string flags() const {
    return fmt::format("--dp {} --pp {} --cp {} --tp {} {} {}", dp, pp, cp, tp, moe, more);
  }
  [[nodiscard]] std::string str() const {
    const nn::ModelConfig& m = options.model;
    return fmt::format("{}, scaling {}, L {} h {} a {} kv {} f {} s {} {}, micro-batch {} of {}",
                       flags(), static_cast<int>(recipe.scaling), m.num_layers, m.hidden_size,
                       m.num_heads, m.num_kv_heads, m.ffn_hidden_size, m.max_seq_len,
                       to_string(options.dtype), micro_batch, options.global_batch);
  }
  /// One rank's training of the same model, with the same micro-batches.
  [[nodiscard]] Fp8Case alone() const {
    Fp8Case one{.moe = moe, .micro_batch = micro_batch, .recipe = recipe, .options = options};
    return one;
  }
  [[nodiscard]] train::Setup setup() const {
    train::Setup setup = ultra::test::setup_of(
        options, ranks(),
        train::list_of(data_parallel::test::flags_of_every_trainer(), memory::technique(),
                       collectives::technique(), data_parallel::technique(), zero::technique(),
                       zero::offload(), tensor_parallel::technique(), context_parallel::technique(),
                       pipeline_parallel::technique(), expert_parallel::technique(),
                       std::make_unique<InFp8>(recipe),
                       data_parallel::test::cutting_into(micro_batch)),
        flags());
    for (const auto& technique : setup.techniques) technique->validate_training(setup);
    return setup;
  }
};

/// @brief Random small runs in fp8, with a watchdog.
class Fp8Test : public data_parallel::test::MeshTest {
 protected:
  /// Sequences divide, so that no rank has tokens of padding, whose numbers would count as others'.
  Fp8Case draw(int dp, int pp, int cp, int tp, Scaling scaling, DType dtype = DType::kF64) {
    Fp8Case c{.dp = dp,
              .pp = pp,
              .cp = cp,
              .tp = tp,
              .micro_batch = random.between(1, 2),
              .recipe = {.scaling = scaling, .history = random.between(1, 3)},
              .options = ultra::test::random_run(random, seed, dp, dtype)};
    const auto split = static_cast<std::size_t>(tp);
    nn::ModelConfig& model = c.options.model;
    model.num_kv_heads = split * random.between(1, 2);
    model.num_heads = model.num_kv_heads * random.between(1, 2);
    model.hidden_size = model.num_heads * 2 * random.between(1, 8);
    model.num_layers = static_cast<std::size_t>(2 * pp);
    model.ffn_hidden_size = split * random.between(1, 60);
    model.vocab_size = data::kByteVocabulary;
    model.max_seq_len = 2 * static_cast<std::size_t>(cp) * split * random.between(1, 3);
    c.options.global_batch = static_cast<std::size_t>(dp) * c.micro_batch * random.between(1, 3);
    c.options.micro_batch = c.micro_batch;
    c.options.steps = 5;
    return c;
  }

  /// The run on one rank: each rank of `world` makes it by itself.
  static ultra::test::RankRun run_alone(const Communicator& world, const Fp8Case& c) {
    const Communicator alone = world.split(world.rank(), 0, "alone");
    return ultra::test::run_of(c.alone().setup(), alone);
  }

  /// Losses, norms and weights, with the histories, within a relative distance of one rank's.
  ///
  /// A number in the middle between two of fp8, to the last bit, is rounded up or down by the order
  /// of the sum that made it. From there on two right runs differ a little. Which numbers lie there
  /// hangs on the weights, so a run that differs so little is made once more with other weights.
  static void expect_equals_one_rank(const Fp8Case& c, double relative = 1e-9) {
    on_mesh(c, [&](Communicator& world) {
      Fp8Case tried = c;
      ultra::test::RankRun run = ultra::test::run_of(tried.setup(), world);
      ultra::test::RankRun one = run_alone(world, tried);
      if (const double distance = distance_between(run, one);
          distance > relative && distance < kOfARounding) {
        ++tried.options.seed;
        run = ultra::test::run_of(tried.setup(), world);
        one = run_alone(world, tried);
      }
      expect_equals(world, run, one, relative);
    });
  }

 private:
  static constexpr double kOfARounding = 1e-3;

  /// The largest relative distance of losses and norms, which is the same on all ranks.
  static double distance_between(const ultra::test::RankRun& run, const ultra::test::RankRun& one) {
    const std::vector<double> a = collectives::test::losses_and_norms(run.result);
    const std::vector<double> b = collectives::test::losses_and_norms(one.result);
    double largest = 0;
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      largest = std::max(largest, std::abs(a[i] - b[i]) / std::abs(b[i]));
    }
    return largest;
  }
};

}  // namespace ultra::mixed_precision::test

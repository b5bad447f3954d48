#pragma once
/// @file
/// Random trainings in mixed precision on meshes.

#include <fmt/format.h>

#include <string>
#include <utility>

#include "chapters/10_mixed_precision/mixed_precision.hpp"
#include "tests/chapters/08_expert_parallel/expert_run.hpp"

namespace ultra::mixed_precision::test {

using namespace ultra::test;

using ultra::test::Axes;
using ultra::test::expect_near_losses;
using ultra::test::expect_near_norms;
using ultra::test::expect_same_on_all;
using ultra::test::losses_and_norms;
using ultra::test::MeshCase;
using ultra::test::RankRun;

/// @brief The techniques of the chapter's program.
inline train::Techniques techniques() {
  train::Techniques list = expert_parallel::test::techniques();
  list.push_back(technique());
  return list;
}

/// @brief A tiny training in a precision, always the same.
inline MeshCase in_precision(const std::string& flags, const Axes& axes = {}) {
  return {
      .axes = axes, .model = flags, .options = ultra::test::short_run(), .techniques = techniques};
}

/// @brief A random run whose ranks all have as many tokens, in as many micro-batches as one rank's.
inline MeshCase draw_even(ultra::test::Random& random, std::uint64_t seed, const Axes& axes,
                          DType dtype, const ultra::test::Limits& limits) {
  MeshCase c = ultra::test::draw(random, seed, axes, dtype, limits);
  c.options.model.num_layers = 2 * axes.pp;
  c.options.model.max_seq_len = 2 * axes.cp * axes.tp * random.between(1, 3);
  c.options.micro_batch = c.micro_batch = random.between(1, 2);
  c.options.global_batch = axes.dp * c.micro_batch * random.between(1, 3);
  c.options.steps = 5;
  return c;
}

/// @brief Random small runs in mixed precision, whose flags are those of the model.
class PrecisionTest : public ultra::test::MeshTest {
 protected:
  MeshCase draw(const Axes& axes, std::string precision) {
    MeshCase c = draw_even(random, seed, axes, DType::kF32, {.most_head_pairs = 4});
    c.techniques = techniques;
    c.model = std::move(precision);
    c.options.model.ffn_hidden_size = axes.tp * random.between(2, 9);
    c.options.clip_norm = 0.0;
    return c;
  }

  /// The same bits: losses, and the weights that would be saved. A norm adds its squares by pieces, in
  /// f64.
  static void expect_same_bits(const RankRun& run, const RankRun& expected) {
    expect_near_losses(run, expected, 0.0);
    expect_near_norms(run, expected, 1e-12);
    EXPECT_EQ(run.weights, expected.weights);
  }
};

}  // namespace ultra::mixed_precision::test

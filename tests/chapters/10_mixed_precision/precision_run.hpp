#pragma once
/// @file
/// Training runs in mixed precision on a mesh, as the program makes them, and the run that they must
/// equal.

#include <fmt/format.h>

#include <memory>
#include <string>

#include "chapters/03_data_parallel/data_parallel.hpp"
#include "chapters/04_zero/zero.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel.hpp"
#include "chapters/06_context_parallel/context_parallel.hpp"
#include "chapters/07_pipeline_parallel/pipeline_parallel.hpp"
#include "chapters/08_expert_parallel/expert_parallel.hpp"
#include "chapters/10_mixed_precision/mixed_precision.hpp"
#include "common/base/numeric.hpp"
#include "tests/chapters/03_data_parallel/mesh_run.hpp"

namespace ultra::mixed_precision::test {

using collectives::test::expect_near_losses;
using collectives::test::expect_near_norms;
using collectives::test::losses_and_norms;
using train::test::expect_same_on_all;
using ultra::test::RankRun;

/// @brief A run on a mesh.
struct PrecisionCase {
  std::size_t dp = 1;
  std::size_t pp = 1;
  std::size_t cp = 1;
  std::size_t tp = 1;
  std::string precision = "--precision bf16";  ///< and what belongs to it
  std::string more = {};                       ///< flags of the layout
  std::size_t micro_batch = 1;                 ///< of a replica, and of the run on one rank
  train::TrainOptions options = {};

  [[nodiscard]] int ranks() const { return checked_cast<int>(dp * pp * cp * tp); }
  [[nodiscard]] std::string flags() const {
    return fmt::format("--dp {} --pp {} --cp {} --tp {} {} {}", dp, pp, cp, tp, precision, more);
  }
  [[nodiscard]] std::string str() const {
    const nn::ModelConfig& m = options.model;
    return fmt::format("{}, L {} h {} a {} kv {} f {} s {}, micro-batch {} of {}, clip {}", flags(),
                       m.num_layers, m.hidden_size, m.num_heads, m.num_kv_heads, m.ffn_hidden_size,
                       m.max_seq_len, micro_batch, options.global_batch, options.clip_norm);
  }
  /// One rank's training of the same model, with the same micro-batches.
  [[nodiscard]] PrecisionCase alone() const {
    PrecisionCase one{.precision = precision, .micro_batch = micro_batch, .options = options};
    return one;
  }
  [[nodiscard]] train::Setup setup() const {
    train::Setup setup = ultra::test::setup_of(
        options, ranks(),
        train::list_of(data_parallel::test::flags_of_every_trainer(), memory::technique(),
                       collectives::technique(), data_parallel::technique(), zero::technique(),
                       zero::offload(), tensor_parallel::technique(), context_parallel::technique(),
                       pipeline_parallel::technique(), expert_parallel::technique(), technique(),
                       data_parallel::test::cutting_into(micro_batch)),
        flags());
    for (const auto& one : setup.techniques) one->validate_training(setup);
    return setup;
  }
};

/// @brief Random small runs in mixed precision, with a watchdog.
class PrecisionTest : public data_parallel::test::MeshTest {
 protected:
  PrecisionCase draw(std::size_t dp, std::size_t pp, std::size_t cp, std::size_t tp,
                     std::string precision) {
    PrecisionCase c{
        .dp = dp,
        .pp = pp,
        .cp = cp,
        .tp = tp,
        .precision = std::move(precision),
        .micro_batch = random.between(1, 2),
        .options = ultra::test::random_run(random, seed, checked_cast<int>(dp), DType::kF32)};
    nn::ModelConfig& model = c.options.model;
    model.num_kv_heads = tp * random.between(1, 2);
    model.num_heads = model.num_kv_heads * random.between(1, 2);
    model.hidden_size = model.num_heads * 2 * random.between(1, 4);
    model.num_layers = 2 * pp;
    model.ffn_hidden_size = tp * random.between(2, 9);
    model.vocab_size = data::kByteVocabulary;
    model.max_seq_len = 2 * cp * tp * random.between(1, 3);
    c.options.global_batch = dp * c.micro_batch * random.between(1, 3);
    c.options.micro_batch = c.micro_batch;
    c.options.clip_norm = 0.0;
    c.options.steps = 5;
    return c;
  }

  /// The run on one rank: each rank of `world` makes it by itself.
  static RankRun run_alone(const Communicator& world, const PrecisionCase& c) {
    const Communicator alone = world.split(world.rank(), 0, "alone");
    return ultra::test::run_of(c.alone().setup(), alone);
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

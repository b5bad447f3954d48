#pragma once
/// @file
/// Training runs with experts on a mesh dp x pp x cp x tp, ep across, as the program makes them, and
/// the run that they must equal.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "chapters/03_data_parallel/data_parallel.hpp"
#include "chapters/04_zero/zero.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel.hpp"
#include "chapters/06_context_parallel/context_parallel.hpp"
#include "chapters/07_pipeline_parallel/pipeline_parallel.hpp"
#include "chapters/08_expert_parallel/expert_parallel.hpp"
#include "common/base/numeric.hpp"
#include "tests/chapters/03_data_parallel/mesh_run.hpp"

namespace ultra::expert_parallel::test {

using collectives::test::expect_near_losses;
using collectives::test::expect_near_weights;
using collectives::test::losses_and_norms;
using train::test::expect_same_on_all;
using ultra::test::RankRun;

/// @brief A run on a mesh.
struct ExpertCase {
  std::size_t dp = 1;
  std::size_t cp = 1;
  std::size_t tp = 1;
  std::size_t ep = 1;
  std::size_t pp = 1;
  bool sequence_parallel = false;
  std::string moe = {};         ///< flags of the experts, the same on every layout
  std::string more = {};        ///< flags of other chapters
  std::size_t micro_batch = 1;  ///< of a replica; options.micro_batch is for one rank
  train::TrainOptions options = {};

  [[nodiscard]] int ranks() const { return checked_cast<int>(dp * pp * cp * tp); }
  [[nodiscard]] std::string flags() const {
    return fmt::format("--dp {} --pp {} --cp {} --tp {} --ep {} {} {} {}", dp, pp, cp, tp, ep, moe,
                       tp > 1 && sequence_parallel ? "--sp on" : "", more);
  }
  [[nodiscard]] std::string str() const {
    const nn::ModelConfig& m = options.model;
    return fmt::format("{}, L {} h {} a {} kv {} f {} s {} {}, micro-batch {} of {}, clip {}",
                       flags(), m.num_layers, m.hidden_size, m.num_heads, m.num_kv_heads,
                       m.ffn_hidden_size, m.max_seq_len, to_string(options.dtype), micro_batch,
                       options.global_batch, options.clip_norm);
  }
  /// One rank's training of the same model.
  [[nodiscard]] ExpertCase alone() const {
    ExpertCase one{.moe = moe, .micro_batch = options.micro_batch, .options = options};
    return one;
  }
  /// The program's, but for micro-batches that need not divide the global batch.
  /// @param experts  the technique of this chapter.
  [[nodiscard]] train::Setup setup(std::unique_ptr<train::Technique> experts = technique()) const {
    train::Setup setup = ultra::test::setup_of(
        options, ranks(),
        train::list_of(data_parallel::test::flags_of_every_trainer(), memory::technique(),
                       collectives::technique(), data_parallel::technique(), zero::technique(),
                       zero::offload(), tensor_parallel::technique(), context_parallel::technique(),
                       pipeline_parallel::technique(), std::move(experts),
                       data_parallel::test::cutting_into(micro_batch)),
        flags());
    for (const auto& technique : setup.techniques) technique->validate_training(setup);
    return setup;
  }
};

/// @brief Random small runs with experts, with a watchdog.
class ExpertTest : public data_parallel::test::MeshTest {
 protected:
  /// A router of every kind, whose experts ep ranks of tp can hold.
  std::string draw_moe(std::size_t ep, std::size_t tp) {
    const std::size_t experts = ep * random.between(1, 3);
    std::string moe = fmt::format("--experts {} --top-k {} --expert-ffn {} --router {}", experts,
                                  random.between(1, std::min<std::size_t>(experts, 4)),
                                  tp * random.between(1, 4), random.pick({"softmax", "sigmoid"}));
    moe += random.pick({"", " --shared-experts 1", " --shared-experts 2"});
    moe += random.pick(
        {" --balance aux --aux-loss 0.5", " --balance bias --bias-rate 0.05", " --balance none"});
    moe += random.pick({"", "", " --z-loss 0.1"});
    return moe + random.pick({"", "", " --capacity-factor 0.8", " --capacity-factor 1.3"});
  }

  ExpertCase draw(std::size_t dp, std::size_t cp, std::size_t tp, std::size_t ep, DType dtype) {
    ExpertCase c{.dp = dp,
                 .cp = cp,
                 .tp = tp,
                 .ep = ep,
                 .sequence_parallel = tp > 1 && random.pick({true, false}),
                 .moe = draw_moe(ep, tp),
                 .micro_batch = random.between(1, 3),
                 .options = ultra::test::random_run(random, seed, checked_cast<int>(dp), dtype)};
    nn::ModelConfig& model = c.options.model;
    model.num_kv_heads = tp * random.between(1, 2);
    model.num_heads = model.num_kv_heads * random.between(1, 2);
    model.hidden_size = model.num_heads * 2 * random.between(1, 2);
    model.num_layers = random.between(1, 2);
    model.ffn_hidden_size = tp * random.between(1, 5);
    model.vocab_size = data::kByteVocabulary;
    model.max_seq_len = random.between(2 * cp, 6 * cp + 5);
    if (c.sequence_parallel) model.max_seq_len = ceil_div(model.max_seq_len, tp) * tp;
    return c;
  }

  /// The run on one rank: each rank of `world` makes it by itself.
  static RankRun run_alone(const Communicator& world, const ExpertCase& c) {
    const Communicator alone = world.split(world.rank(), 0, "alone");
    return ultra::test::run_of(c.alone().setup(), alone);
  }
};

}  // namespace ultra::expert_parallel::test

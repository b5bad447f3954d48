#pragma once
/// @file
/// Cases of training with ZeRO: what is trained on which ranks, and random draws of it.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "chapters/01_memory/recompute_mode.hpp"
#include "chapters/02_collectives/choice/book_algorithms.hpp"
#include "chapters/04_zero/estimate/sharded_bytes.hpp"
#include "chapters/04_zero/sharded_model.hpp"
#include "chapters/04_zero/zero_stage.hpp"
#include "common/comm/run_ranks.hpp"
#include "common/data/dataset.hpp"
#include "tests/common/train/frame/rank_runs.hpp"
#include "tests/support/model.hpp"
#include "tests/support/random.hpp"
#include "tests/support/watchdog.hpp"

namespace ultra::zero::test {

using train::test::quietly;

inline constexpr ZeroStage kSharded[] = {ZeroStage::kOptimizer, ZeroStage::kGradients,
                                         ZeroStage::kParameters};
inline constexpr std::size_t kEverything = std::numeric_limits<std::size_t>::max();
inline constexpr std::size_t kCapacities[] = {0, 1, 997, 4096, kEverything};

/// @brief Reductions that add in the order of the ranks, wherever an element stands: the bits
/// depend neither on buckets nor on shards.
inline std::shared_ptr<const comm::CollectiveAlgorithms> rank_order() {
  return std::make_shared<const collectives::BookAlgorithms>(collectives::BookOptions{
      .names = {{OpKind::kAllReduce, "pairwise"}, {OpKind::kReduceScatter, "pairwise"}},
      .tuning = {}});
}

inline RankOptions in_rank_order(Progress progress = Progress::kThread) {
  RankOptions options;
  options.timeout = std::chrono::seconds(100);  // a hang would be one
  options.progress = progress;
  options.algorithms = rank_order();
  return options;
}

/// @brief A run on replicas.
struct ZeroCase {
  int ranks = 1;
  std::optional<std::size_t> node_size;
  std::size_t micro_batch = 1;  ///< of a replica; options.micro_batch is for one rank
  ZeroSettings settings;
  memory::RecomputeConfig recompute;
  train::TrainOptions options;

  [[nodiscard]] int shards() const { return node_size ? static_cast<int>(*node_size) : ranks; }
  /// Sequences of the replica that has most of them.
  [[nodiscard]] std::size_t largest_share() const {
    const auto n = static_cast<std::size_t>(ranks);
    return (options.global_batch + n - 1) / n;
  }
  [[nodiscard]] std::size_t passes() const {
    return (largest_share() + micro_batch - 1) / micro_batch;
  }
  [[nodiscard]] ShardedRun sharded_run() const {
    return {.model = options.model,
            .dtype = options.dtype,
            .settings = all_settings(),
            .shards = shards(),
            .replicas = ranks / shards(),
            .micro_batches = passes()};
  }
  /// With what is computed again, which decides when units are used.
  [[nodiscard]] ZeroSettings all_settings() const {
    ZeroSettings all = settings;
    const bool again = recompute.mode == memory::Recompute::kFull;
    all.recompute_every = again ? recompute.recompute_every : 0;
    return all;
  }

  [[nodiscard]] std::string str() const {
    const nn::ModelConfig& m = options.model;
    return fmt::format(
        "{} on {} ranks in nodes of {}, buckets of {}, overlap {}, prefetch {}, reshard {}, "
        "L {} h {} a {} kv {} f {} s {} {}, micro-batch {} of {}, clip {}, recompute {} every {}",
        name_of(settings.stage), ranks, shards(), settings.bucket_capacity,
        settings.overlap == Overlap::kOn ? "on" : "off", settings.prefetch,
        settings.reshard == Reshard::kAfterForward ? "yes" : "no", m.num_layers, m.hidden_size,
        m.num_heads, m.num_kv_heads, m.ffn_hidden_size, m.max_seq_len, to_string(options.dtype),
        micro_batch, options.global_batch, options.clip_norm, to_string(recompute.mode),
        recompute.recompute_every);
  }
};

/// @brief Random small runs, with a watchdog.
class ZeroTest : public ultra::test::RandomTest {
 protected:
  ZeroSettings draw_settings(ZeroStage stage) {
    return {.stage = stage,
            .bucket_capacity = random.pick(
                {kCapacities[0], kCapacities[1], kCapacities[2], kCapacities[3], kCapacities[4]}),
            .overlap = random.pick({Overlap::kOff, Overlap::kOn}),
            .prefetch = random.between(0, 3),
            .reshard = random.pick({Reshard::kAfterForward, Reshard::kAfterBackward})};
  }

  /// Uneven shares, micro-batches that do not divide them, odd sizes.
  ZeroCase draw(int ranks, ZeroStage stage, DType dtype) {
    const auto least = static_cast<std::size_t>(ranks);
    ZeroCase c{.ranks = ranks,
               .node_size = {},
               .micro_batch = random.between(1, 3),
               .settings = draw_settings(stage),
               .recompute = {},
               .options = ultra::test::short_run()};
    c.options.model = ultra::test::random_model_config(random);
    c.options.model.vocab_size = data::kByteVocabulary;
    c.options.model.max_seq_len = random.between(2, 13);
    c.options.global_batch = least + random.between(0, 2 * least);
    c.options.micro_batch = 1;
    c.options.clip_norm = random.pick({0.0, 0.05, 1.0});
    c.options.seed = seed;
    c.options.dtype = dtype;
    return c;
  }

  static void on_ranks(const ZeroCase& c, const std::function<void(Communicator&)>& fn,
                       const RankOptions& options = in_rank_order()) {
    SCOPED_TRACE(c.str());
    quietly([&] { run_ranks(c.ranks, fn, options); });
    if (HasFailure()) std::printf("%s\n", c.str().c_str());
  }

 private:
  ultra::test::Watchdog watchdog_{std::chrono::seconds(110)};
};

}  // namespace ultra::zero::test

#pragma once
/// @file
/// Cases of training with ZeRO: what is trained on which ranks, and random draws of it.

#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <string>

#include "chapters/01_memory/recompute_mode.hpp"
#include "chapters/04_zero/stages.hpp"
#include "chapters/04_zero/zero_stage.hpp"
#include "common/base/numeric.hpp"
#include "tests/support/ranks/on_ranks.hpp"
#include "tests/support/training/mesh_case.hpp"

namespace ultra::zero::test {

using namespace ultra::test;

using ultra::test::quietly;

inline constexpr ZeroStage kSharded[] = {ZeroStage::kOptimizer, ZeroStage::kGradients,
                                         ZeroStage::kParameters};
inline constexpr std::size_t kEverything = std::numeric_limits<std::size_t>::max();
inline constexpr std::size_t kCapacities[] = {0, 1, 997, 4096, kEverything};

inline RankOptions in_rank_order(Progress progress = Progress::kThread) {
  RankOptions options = ultra::test::in_rank_order();
  options.timeout = std::chrono::seconds(100);  // a hang would be one
  options.progress = progress;
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
    return ceil_div(options.global_batch, static_cast<std::size_t>(ranks));
  }
  [[nodiscard]] std::size_t passes() const { return ceil_div(largest_share(), micro_batch); }
  /// With what is computed again, which decides when units are used.
  [[nodiscard]] ZeroSettings all_settings() const {
    ZeroSettings all = settings;
    const bool again = recompute.mode == memory::Recompute::kFull;
    all.recompute_every = again ? recompute.recompute_every : 0;
    return all;
  }

  [[nodiscard]] std::string str() const {
    return fmt::format(
        "{} on {} ranks in nodes of {}, {}, buckets of {}, overlap {}, prefetch {}, reshard {}, "
        "{}, "
        "recompute {} every {}",
        name_of(settings.stage), ranks, shards(), settings.cut == ShardCut::kRows ? "rows" : "flat",
        settings.bucket_capacity, settings.overlap == Overlap::kOn ? "on" : "off",
        settings.prefetch, settings.reshard == Reshard::kAfterForward ? "yes" : "no",
        ultra::test::text_of(options, micro_batch), to_string(recompute.mode),
        recompute.recompute_every);
  }
};

/// @brief Random small runs, with a watchdog.
class ZeroTest : public ultra::test::MeshTest {
 protected:
  ZeroSettings draw_settings(ZeroStage stage) {
    return {.stage = stage,
            .bucket_capacity = random.pick(
                {kCapacities[0], kCapacities[1], kCapacities[2], kCapacities[3], kCapacities[4]}),
            .cut = stage == ZeroStage::kParameters ? random.pick({ShardCut::kFlat, ShardCut::kRows})
                                                   : ShardCut::kFlat,
            .overlap = random.pick({Overlap::kOff, Overlap::kOn}),
            .prefetch = random.between(0, 3),
            .reshard = random.pick({Reshard::kAfterForward, Reshard::kAfterBackward})};
  }

  /// Uneven shares, micro-batches that do not divide them, odd sizes.
  ZeroCase draw(int ranks, ZeroStage stage, DType dtype) {
    return {
        .ranks = ranks,
        .node_size = {},
        .micro_batch = random.between(1, 3),
        .settings = draw_settings(stage),
        .recompute = {},
        .options = ultra::test::random_run(random, seed, checked_cast<std::size_t>(ranks), dtype)};
  }

  static void on_ranks(const ZeroCase& c, const std::function<void(Communicator&)>& fn,
                       const RankOptions& options = in_rank_order()) {
    ultra::test::run_quietly(c.str(), c.ranks, fn, options);
  }
};

}  // namespace ultra::zero::test

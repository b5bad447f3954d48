#pragma once
/// @file
/// What ZeRO's stages need and what they cost: bytes that each rank keeps, elements that it sends,
/// and the largest model that fits.
///
/// Exercise 04.6 (`./workbook check 04.6`). Legend: P parameters; S ranks that share one copy of
/// the model's states; R copies; N = S R ranks, and R = 1 unless sharding is hybrid;
/// m micro-batches that each rank takes in a step.
///
/// All numbers are averages over the ranks: P / S of a state, also where S does not divide P. What
/// a layout pads is not counted, nor is what exists for a moment: a group of gradients that is
/// on its way, a unit of parameters that is gathered.

#include <cstddef>

#include "chapters/01_memory/memory_estimate.hpp"
#include "chapters/04_zero/prefetch.hpp"
#include "chapters/04_zero/zero_stage.hpp"

namespace ultra::zero {

/// @brief What is sharded, and over which ranks.
struct Sharding {
  ZeroStage stage = ZeroStage::kNone;  ///< which states
  int shards = 1;    ///< S, ranks that share one copy: a node, if hybrid; else all
  int replicas = 1;  ///< R, copies: nodes, if hybrid; else 1

  bool operator==(const Sharding&) const = default;
};

/// @brief Bytes that a rank keeps from step to step.
struct RankBytes {
  double parameters = 0;  ///< the weights that the passes compute with
  double gradients = 0;   ///< their gradients
  double optimizer = 0;   ///< the optimizer's states, with the fp32 master weights where needed

  /// @brief All states together.
  [[nodiscard]] double total() const { return parameters + gradients + optimizer; }
  bool operator==(const RankBytes&) const = default;
};

/// @brief Elements that a rank sends in one optimizer step.
struct SentElements {
  double inside = 0;   ///< to the ranks that share its copy
  double between = 0;  ///< to those that hold the same shard of another copy

  /// @brief All together.
  [[nodiscard]] double total() const { return inside + between; }
  bool operator==(const SentElements&) const = default;
};

/// @brief Bytes of the model's states per rank.
///
/// @param parameters  P.
/// @param precision   gives the bytes of each state per parameter: memory::bytes_per_parameter().
/// Source: Rajbhandari et al. 2020, "ZeRO", arXiv 1910.02054, section 5 and table 1.
[[nodiscard]] RankBytes bytes_per_rank(const Sharding& sharding, std::size_t parameters,
                                       memory::NumberFormats precision);

/// @brief Elements that a rank sends in a step, with rings: parameters and gradients, no norms.
///
/// Inside a copy parameters are all-gathered and gradients reduce-scattered; between copies, shards of
/// gradients are all-reduced, once per step: a shard that is summed over the micro-batches can wait.
/// Without sharding, both levels together send what an all-reduce on one level would.
/// The head's parameters stay at the forward-backward boundary, which P alone does not tell: all
/// units are counted as gathered for each pass.
/// @param parameters     P.
/// @param micro_batches  m, at least 1.
/// @param reshard        what becomes of ZeRO-3's parameters between forward and backward pass; the
///                       other stages do not look at it.
/// Source: Rajbhandari et al. 2020, "ZeRO", arXiv 1910.02054, section 7, for m = 1 and R = 1; Zhao
/// et al. 2023, "PyTorch FSDP", arXiv 2304.11277, section 3, for parameters that are kept, copies.
[[nodiscard]] SentElements sent_per_rank(const Sharding& sharding, std::size_t parameters,
                                         std::size_t micro_batches,
                                         Reshard reshard = Reshard::kAfterForward);

/// @brief P of the largest model whose states fit into a rank; a real number, not rounded.
/// @param device_bytes  of each rank.
/// Source: Rajbhandari et al. 2020, "ZeRO", arXiv 1910.02054, table 2.
[[nodiscard]] double largest_model(const Sharding& sharding, memory::NumberFormats precision,
                                   double device_bytes);

}  // namespace ultra::zero

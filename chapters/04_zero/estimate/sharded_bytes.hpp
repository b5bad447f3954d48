#pragma once
/// @file
/// Bytes that a rank of a sharded training takes, to the byte: the closed forms with everything
/// that they leave out, padding and buffers.

#include <cstddef>
#include <optional>

#include "chapters/01_memory/estimate/stored_formats.hpp"
#include "chapters/04_zero/stages.hpp"
#include "chapters/04_zero/zero_plus_plus/zero_plus_plus_volume.hpp"
#include "common/comm/collectives/collective_algorithms.hpp"
#include "common/nn/model_config.hpp"
#include "common/tensor/dtype.hpp"

namespace ultra::zero {

/// @brief What decides how many bytes a rank takes.
struct ShardedRun {
  nn::ModelConfig model;          ///< the whole model
  DType dtype = DType::kF32;      ///< of weights, gradients and moments
  ZeroSettings settings;          ///< how it is sharded
  int shards = 1;                 ///< ranks that share one copy
  int replicas = 1;               ///< copies, whose ranks add up their shards
  std::size_t micro_batches = 1;  ///< passes of each rank in a step
  /// Bytes per parameter where they are not all of `dtype`, which is then that of the gradients.
  std::optional<memory::StateWidths> widths = {};
};

/// @brief Peaks of a rank's bytes, by category.
struct ShardedBytes {
  std::size_t parameters = 0;  ///< weights that are kept, with the padding; secondary shards too
  std::size_t gradients = 0;   ///< those kept until the optimizer step, with the padding
  std::size_t optimizer = 0;   ///< moments and master weights of what the rank updates, no padding;
                               ///< where they are offloaded, the window of blocks
  std::size_t buffers = 0;     ///< communication: groups of gradients under way, gathered units
  std::size_t secondary = 0;   ///< of the parameters: secondary shards
  std::size_t scratch = 0;     ///< what the reduce-scatter of the largest group needs beside; in
                               ///< stage 1 also what adding up a shard over the copies does
  std::size_t stored = 0;      ///< offloaded: in the host's memory or in a file, not on the device
};

/// @brief The peaks of a rank.
///
/// Exact but for the scratch memory: whether it is needed at the moment when the buffers are at
/// their peak depends on when messages arrive.
/// @param rank        in the group of ranks that share one copy.
/// @param algorithms  whose reduce-scatter is used.
[[nodiscard]] ShardedBytes predict_bytes(const ShardedRun& run, int rank,
                                         const comm::CollectiveAlgorithms& algorithms);

/// @brief Elements that a rank sends in one step, with the padding: the reduce-scatters and
/// all-gathers of whole groups; exact for rings. What ZeRO++ changes is not in it.
[[nodiscard]] std::size_t predict_sent_elements(const ShardedRun& run);

/// @brief Bytes that a rank sends in one step to add up gradients and to gather weights, as they
/// travel: quantised and inside nodes where ZeRO++ says so. Between copies nothing is counted.
/// @see sent_in_micro_batch() for the closed forms, and for when those between nodes are exact
[[nodiscard]] SentBytes predict_sent(const ShardedRun& run, int rank);

}  // namespace ultra::zero

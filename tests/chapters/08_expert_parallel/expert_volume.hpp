#pragma once
/// @file
/// What the all-to-alls of expert parallelism send, by closed form.
///
/// Legend: N ranks of ep; E experts, k chosen; n tokens of a micro-batch on a rank; h hidden_size.
/// Per block and micro-batch a rank sends, in elements:
///
/// | exchange       | of a routing                | evenly spread  |
/// |----------------|-----------------------------|----------------|
/// | dispatch       | h rows for other ranks      | k n h (N-1)/N  |
/// | combine        | h rows from other ranks     | k n h (N-1)/N  |
///
/// A forward pass makes both, and so does a backward pass; a forward pass also sends E (N-1)/N
/// counts of 4 bytes. With tp, each of its ranks sends all of this.

#include <cstddef>

#include "chapters/08_expert_parallel/moe_config.hpp"

namespace ultra::expert_parallel {

/// @brief Rows that travel between different ranks, as one of them sees it.
struct RemoteRows {
  double sent = 0;      ///< to other ranks' experts
  double received = 0;  ///< from other ranks, for its own
};

/// @brief Rows of evenly spread tokens: k n (N-1)/N each way.
[[nodiscard]] RemoteRows even_remote_rows(const MoeConfig& moe, double tokens, std::size_t ep);

/// @brief Bytes that a rank sends for one block.
/// @param rows           of all its micro-batches.
/// @param micro_batches  of which counts travel.
/// @param forwards       forward passes of each micro-batch: 2 where the block is computed again.
/// @param element_bytes  of an activation.
[[nodiscard]] double exchanged_bytes(const RemoteRows& rows, std::size_t micro_batches,
                                     std::size_t forwards, std::size_t hidden,
                                     std::size_t num_experts, std::size_t ep,
                                     std::size_t element_bytes);

}  // namespace ultra::expert_parallel

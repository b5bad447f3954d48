#pragma once
/// @file
/// The bytes of activations that a rank of any mesh holds at once.

#include <cstddef>
#include <optional>
#include <vector>

#include "common/train/cli/technique.hpp"

namespace ultra::five_d {

/// @brief Sequences of each micro-batch of a replica: as many micro-batches in all replicas, and a
/// sequence once more where a replica has none left.
[[nodiscard]] std::vector<std::size_t> micro_batches_of(const train::Setup& setup,
                                                        std::size_t replica);

/// @brief Whether every rank gets as many rows for its experts, whatever tokens choose: a dense model,
/// or one whose tokens use all experts, where nothing pads sequences or the batch.
[[nodiscard]] bool spreads_evenly(const train::Setup& setup);

/// @brief Highest bytes of activations of a rank in a step: chapter 07's list of what its stage
/// holds, of blocks as chapters 05, 06 and 08 share them, for the rank's own micro-batches. Of a
/// model with experts, if tokens are spread evenly: exact where spreads_evenly().
/// @param setup  all flags of a training, settled.
/// @return nothing for stages whose layers are measured.
[[nodiscard]] std::optional<std::size_t> activation_bytes(const train::Setup& setup,
                                                          std::size_t rank);

}  // namespace ultra::five_d

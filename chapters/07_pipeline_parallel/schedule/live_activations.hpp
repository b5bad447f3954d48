#pragma once
/// @file
/// How many activations a rank keeps: what a schedule takes of its memory.
///
/// Exercise 07.6 (`./workbook check 07.6`).
/// Body: solutions/07_pipeline_parallel/live_activations.cpp.

#include <cstddef>
#include <span>

#include "common/train/step_schedule.hpp"

namespace ultra::pipeline_parallel {

/// @brief The most activations that a rank keeps at the same time.
///
/// One is what a forward pass of a micro-batch through a chunk saves, until no pass needs it.
/// @param list  a rank's passes, in their order.
[[nodiscard]] std::size_t peak_live_activations(std::span<const train::Action> list);

/// @brief Bytes of the activations of a micro-batch in one chunk.
struct SavedBytes {
  double by_forward = 0;   ///< that F leaves behind
  double for_weights = 0;  ///< of them, those that W still needs after B: inputs of linear layers
};

/// @brief The most bytes of activations that a rank keeps at the same time.
/// @param list    a rank's passes, in their order.
/// @param chunks  of each chunk of the rank; a chunk with the loss keeps more than others.
[[nodiscard]] double peak_saved_bytes(std::span<const train::Action> list,
                                      std::span<const SavedBytes> chunks);

}  // namespace ultra::pipeline_parallel

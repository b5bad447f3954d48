#pragma once
/// @file
/// Gradient accumulation: a global batch in pieces that fit.
///
/// Exercise 01.4 (`./workbook check 01.4`). Body: solutions/01_memory/gradient_accumulation.cpp.

#include <cstddef>
#include <vector>

#include "common/train/micro_batch.hpp"
#include "common/train/step_schedule.hpp"

namespace ultra::memory {

/// @brief Cuts a rank's share of the global batch into micro-batches of equal size.
///
/// When all of them have passed, each parameter holds this share of the gradient of the mean loss
/// over *all* tokens of the global batch, as if the whole share had gone through at once: gradients
/// add up, and so do losses.
/// @param micro_batch_size  sequences per pass; divides the share.
/// @return the micro-batches in order, each with what its token losses are divided by.
/// @throws ConfigError when micro_batch_size does not divide the share.
[[nodiscard]] std::vector<train::MicroBatch> cut_share(const train::LocalBatch& share,
                                                       std::size_t micro_batch_size);

/// @brief The order in which micro-batches pass the model, forward and backward.
///
/// Memory: the activations of one micro-batch, however many there are.
[[nodiscard]] train::StepSchedule accumulation_schedule(std::size_t micro_batches);

}  // namespace ultra::memory

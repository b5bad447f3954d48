#pragma once
/// @file
/// Gradient completion: gradients of several micro-batches add up on the replica, and travel once.
///
/// Exercise 03.4 (`./workbook check 03.4`).
/// Body: solutions/03_data_parallel/gradient_completion.cpp.
/// Source: Li et al. 2020, "PyTorch distributed", arXiv 2006.15704, section 3.2.4 (no_sync).

#include <cstddef>
#include <span>

#include "common/train/step_schedule.hpp"

namespace ultra::data_parallel {

/// @brief The action of a step that makes the last contribution to a gradient. From then on it may
/// travel: what has left must not change any more.
/// @param schedule  of the step; gradient accumulation is F0 B0 F1 B1 ..., pipelines have others.
/// @param chunks    those parts of the model that use the parameter; at least one.
/// @return its index in the schedule.
/// @throws InternalError when no action of the schedule makes gradients of these chunks.
/// Cost: none: however many micro-batches there are, a gradient is sent once per step.
[[nodiscard]] std::size_t completing_action(std::span<const train::Action> schedule,
                                            std::span<const std::size_t> chunks);

}  // namespace ultra::data_parallel

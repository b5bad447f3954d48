#pragma once
/// @file
/// How many activations a rank keeps: what its memory is, whatever its schedule's bubble.
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

}  // namespace ultra::pipeline_parallel

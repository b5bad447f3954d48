#pragma once
/// @file
/// Activations and messages of the published schedules in closed form.

#include <cstddef>

#include "chapters/07_pipeline_parallel/closed_forms/bubble_fraction.hpp"

namespace ultra::pipeline_parallel {

/// @brief The most activations that a stage keeps, of a micro-batch in one chunk each.
///
/// @pre The schedule has a closed form: its row in lists/schedules.cpp.
/// Source: as bubble_seconds(); those of a step that does not fill the pipeline are counted here.
[[nodiscard]] std::size_t peak_activations_of(const ScheduleChoice& choice,
                                              const PipelineShape& shape, std::size_t stage);

/// @brief Messages of a step, over all ranks: for each micro-batch one activation and one gradient
/// for each hop between two ranks. A loop of v chunks has p v - 1 hops, a V 2 p - 2.
[[nodiscard]] std::size_t messages_of(const ScheduleChoice& choice, const PipelineShape& shape);

}  // namespace ultra::pipeline_parallel

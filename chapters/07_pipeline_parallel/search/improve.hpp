#pragma once
/// @file
/// Local search: a schedule, changed in one place at a time.

#include <cstddef>

#include "chapters/07_pipeline_parallel/schedule/pipeline_schedule.hpp"
#include "chapters/07_pipeline_parallel/simulate/cost_model.hpp"

namespace ultra::pipeline_parallel {

/// @brief The schedule with split backward passes and without overlaps.
[[nodiscard]] PipelineSchedule split_backward(const PipelineSchedule& schedule);

/// @brief Moves single passes of a rank to other places of its list, and keeps what does not end
/// later. Micro-batches stay in their order. The same arguments give the same schedule.
/// @param schedule  of F, B and W.
/// @param tries     moves that are tried.
/// @throws Interrupted when the program is told to stop.
[[nodiscard]] PipelineSchedule improved(PipelineSchedule schedule, const CostModel& costs,
                                        double most_bytes, std::size_t tries);

}  // namespace ultra::pipeline_parallel

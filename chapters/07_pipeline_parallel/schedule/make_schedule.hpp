#pragma once
/// @file
/// make_schedule(): what all ranks of a pipeline do, from the rows of lists/schedules.cpp.

#include <cstddef>

#include "chapters/07_pipeline_parallel/schedule/pipeline_schedule.hpp"
#include "chapters/07_pipeline_parallel/schedule/schedule_choice.hpp"

namespace ultra::pipeline_parallel {

/// @brief Which rank has which parts of the model.
[[nodiscard]] Placement placement_of(const ScheduleChoice& choice, std::size_t stages);

/// @brief Checks that the schedule exists for so many ranks and micro-batches.
/// @throws ConfigError with the equation that does not hold and what to change.
void expect_possible(const ScheduleChoice& choice, std::size_t stages, std::size_t micro_batches);

/// @brief What every rank of a pipeline does in a step.
/// @throws ConfigError as expect_possible() does.
[[nodiscard]] PipelineSchedule make_schedule(const ScheduleChoice& choice, std::size_t stages,
                                             std::size_t micro_batches);

}  // namespace ultra::pipeline_parallel

#pragma once
/// @file
/// What a schedule does not go together with.

#include <string>
#include <vector>

#include "chapters/07_pipeline_parallel/schedule/pipeline_schedule.hpp"
#include "common/train/program/technique.hpp"

namespace ultra::pipeline_parallel {

/// @brief What the techniques of a training cannot do under a schedule: V-shaped ones, and those
/// that update between passes.
/// @param name      of the schedule, as the flags have it.
/// @param schedule  settled; null: no flag asks for one, and nothing is broken.
[[nodiscard]] std::vector<train::Exclusion> schedule_exclusions(const std::string& name,
                                                                const PipelineSchedule* schedule,
                                                                const train::Setup& setup);

}  // namespace ultra::pipeline_parallel

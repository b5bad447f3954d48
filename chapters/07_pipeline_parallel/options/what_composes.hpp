#pragma once
/// @file
/// What a schedule does not go together with.

#include <string>

#include "chapters/07_pipeline_parallel/schedule/pipeline_schedule.hpp"
#include "common/train/program/technique.hpp"

namespace ultra::pipeline_parallel {

/// @brief Checks that the other techniques of a training can do their part under this schedule.
/// @param name  of the schedule, as the flags have it.
/// @throws ConfigError that names both flags, why, and what to do.
void expect_composes(const std::string& name, const PipelineSchedule& schedule,
                     const train::Setup& setup);

}  // namespace ultra::pipeline_parallel

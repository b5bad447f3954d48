#pragma once
/// @file
/// Schedules as text, to be read and to be written by hand.
///
///     # two stages, three micro-batches
///     placement loop
///     F0 F1 BW0 F2 BW1 BW2
///     F0 BW0 F1 BW1 F2 BW2
///
/// One line for each stage, from the first to the last. F forward, BW backward, or B for the
/// input's gradient and W for those of the weights, U update; then the micro-batch, and after a
/// point the chunk of the rank when it is not the first: F0.1. "F1&BW0.1" overlap. "placement v"
/// puts the two chunks of a rank at both ends of the way; "loop" is what a text without that line
/// has. Micro-batches and chunks are as many as the text names.

#include <string>
#include <string_view>

#include "chapters/07_pipeline_parallel/schedule/pipeline_schedule.hpp"

namespace ultra::pipeline_parallel {

/// @brief Reads a schedule; a byte order mark before it is not part of it.
/// @param name  for messages.
/// @throws ConfigError that names the line, the word and what was expected; or, of a text that can
/// be read, why the schedule cannot be run: see expect_valid().
[[nodiscard]] PipelineSchedule schedule_from_text(std::string_view text, const std::string& name);

/// @brief A schedule as schedule_from_text() reads it.
[[nodiscard]] std::string text_of(const PipelineSchedule& schedule);

}  // namespace ultra::pipeline_parallel

#pragma once
/// @file
/// Pictures of a simulated step: for notebooks, for trace viewers and for the terminal.

#include <cstddef>
#include <string>

#include "chapters/07_pipeline_parallel/schedule/pipeline_schedule.hpp"
#include "chapters/07_pipeline_parallel/simulate/simulated_step.hpp"

namespace ultra::pipeline_parallel {

/// @brief All actions and messages with their times, as JSON: what --executed-gantt writes of a
/// real step, and beside it "seconds", "bubble_over_ideal", "bubble_over_total" and
/// "peak_activations".
[[nodiscard]] std::string gantt_json(const PipelineSchedule& schedule, const SimulatedStep& step);

/// @brief The same as a trace that Perfetto and chrome://tracing open: a process for each stage.
[[nodiscard]] std::string gantt_trace(const PipelineSchedule& schedule, const SimulatedStep& step);

/// @brief The same as a line of characters for each stage.
///
/// A digit is a forward pass of that micro-batch (its last digit), a small letter a backward pass
/// (a for 0), BW or B, a capital letter W, '|' an update, '.' nothing. Of two that overlap the
/// backward pass is shown after the forward pass.
/// @param columns  at most; as many as the step has seconds when these are fewer, and all
/// actions begin and end at whole ones.
[[nodiscard]] std::string gantt_text(const PipelineSchedule& schedule, const SimulatedStep& step,
                                     std::size_t columns = 100);

}  // namespace ultra::pipeline_parallel

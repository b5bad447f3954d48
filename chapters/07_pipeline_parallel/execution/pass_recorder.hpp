#pragma once
/// @file
/// What an executed schedule leaves behind: spans in the trace, counters, and a Gantt chart as
/// JSON.

#include <memory>
#include <string>

#include "chapters/07_pipeline_parallel/execution/action_log.hpp"
#include "chapters/07_pipeline_parallel/schedule/pipeline_schedule.hpp"
#include "common/train/gradients/model_states.hpp"
#include "common/train/step_observer.hpp"

namespace ultra::pipeline_parallel {

/// The most micro-batches whose activations a rank held at a time, over all its chunks: until the
/// gradients of the weights were made.
inline constexpr std::string_view kPeakActivations = "peak_live_activations";
/// The same, until the gradient of the input was made.
inline constexpr std::string_view kPeakInputs = "peak_live_inputs";

/// @brief Shows each action in the track "schedule" of the rank's trace, and counts
/// kPeakActivations and kPeakInputs.
/// @param scope  of the rank's training.
/// @param log    told of each action; the links tell it when inputs come.
/// @param gantt  file for the last step's actions, of the pipeline of rank 0; empty for none.
/// @throws FileError when the file cannot be made; on every rank alike.
///
/// The file: {"schedule", "stages", "chunks", "micro_batches", "unit": "s", "actions": [{"stage",
/// "action", "kind", "micro_batch", "part", "begin", "end"}, ...], "costs": {"F": [per part],
/// ...}}. Times count from the step's first action; costs are means of work without waiting.
/// Collective over scope.context.world when a file is asked for.
[[nodiscard]] std::unique_ptr<train::StepObserver> record_passes(const train::ModelScope& scope,
                                                                 PipelineSchedule schedule,
                                                                 std::shared_ptr<ActionLog> log,
                                                                 const std::string& gantt);

}  // namespace ultra::pipeline_parallel

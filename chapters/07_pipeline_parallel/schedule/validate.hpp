#pragma once
/// @file
/// The validator: whether a schedule, whoever has written it, can be run, and what it takes.

#include <cstddef>
#include <string>
#include <vector>

#include "chapters/07_pipeline_parallel/schedule/pipeline_schedule.hpp"

namespace ultra::pipeline_parallel {

/// @brief Checks that every micro-batch passes every part, and that the ranks do not wait for each
/// other.
///
/// - Each rank has each of F, B and W (or BW) of each micro-batch and chunk once, B after F, W
///   after B; U right after BW for all of them or for none.
/// - Passes end, whatever messages cost, and sends that wait for their receiver do, too.
/// @throws ConfigError that names the stage, the action and the reason; of ranks that wait for each
/// other it says what each waits for.
void expect_valid(const PipelineSchedule& schedule);

/// @brief peak_live_activations() of every stage: activations of a micro-batch in one chunk each.
[[nodiscard]] std::vector<std::size_t> peak_live_activations(const PipelineSchedule& schedule);

}  // namespace ultra::pipeline_parallel

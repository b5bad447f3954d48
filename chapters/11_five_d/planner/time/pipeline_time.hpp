#pragma once
/// @file
/// What a pipeline takes for its passes and messages, by chapter 07's simulator: where stages are not
/// alike, or messages slow, no closed form says it.

#include <cstddef>
#include <vector>

#include "chapters/07_pipeline_parallel/schedule/schedule_choice.hpp"
#include "chapters/07_pipeline_parallel/simulate/cost_model.hpp"

namespace ultra::planner {

/// @brief A pipeline and what its parts cost.
struct PipelineCosts {
  pipeline_parallel::ScheduleChoice schedule = {};  ///< of the pipeline
  std::size_t stages = 1;                           ///< p
  std::size_t micro_batches = 1;                    ///< m
  std::vector<pipeline_parallel::PartCost> parts =
      {};  ///< p times the schedule's chunks, in the model's order
  pipeline_parallel::LinkCost link =
      {};                      ///< between two stages; seconds_per_byte: of a whole message
  bool until_the_end = false;  ///< ranks wait for each other behind the last pass
};

/// @brief Seconds from the first pass to the last; of zero-bubble-h2 and zb-v those of the rank that
/// takes longest from its own first pass to its own last, unless all wait for the end.
///
/// Exact: of many micro-batches as many are simulated as it takes until the full pipeline repeats
/// itself to the last bit, on all ranks and links; the others are so many beats more. Costs are
/// rounded to one part in 10,000 of a part's mean, and what was simulated once is kept.
/// Cost: O(m p chunks) at most, most often O(p p chunks), for a pipeline that was not asked for
/// before.
[[nodiscard]] double pipeline_seconds(const PipelineCosts& costs);

}  // namespace ultra::planner

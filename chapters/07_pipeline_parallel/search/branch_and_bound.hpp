#pragma once
/// @file
/// Branch and bound: a schedule that no other beats, for few stages and micro-batches.
///
/// One chunk per rank, backward passes split. Micro-batches are alike, so each rank takes them in
/// their order, and a schedule is an order of its F, B and W. Only active schedules are looked at:
/// of all passes that can come next the one that can end first says on which rank to branch, among
/// those of its passes that can begin before that end. Moving a pass to the front of its rank's
/// list never needs more memory than the list has room for, because no other F stands between.
/// Source: Giffler and Thompson 1960, "Algorithms for Solving Production-Scheduling Problems".

#include <cstddef>
#include <optional>

#include "chapters/07_pipeline_parallel/schedule/pipeline_schedule.hpp"
#include "chapters/07_pipeline_parallel/simulate/cost_model.hpp"

namespace ultra::pipeline_parallel {

/// @brief What was looked for and found.
struct BoundedSearch {
  std::optional<PipelineSchedule> better;  ///< ends before the bound; nothing: none was found
  bool is_complete = false;                ///< all schedules were looked at or excluded
  std::size_t nodes = 0;                   ///< decisions that were tried
};

/// @brief Looks for a schedule that ends before `bound`.
/// @param placement   of one chunk per rank.
/// @param most_bytes  of activations on a rank.
/// @param most_nodes  after which it gives up.
/// @throws Interrupted when the program is told to stop.
[[nodiscard]] BoundedSearch branch_and_bound(const Placement& placement, std::size_t micro_batches,
                                             const CostModel& costs, double most_bytes,
                                             double bound, std::size_t most_nodes);

}  // namespace ultra::pipeline_parallel

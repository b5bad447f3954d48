#pragma once
/// @file
/// Greedy lists: every rank does what it can do first, by a rule of preference.

#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

#include "chapters/07_pipeline_parallel/schedule/pipeline_schedule.hpp"
#include "chapters/07_pipeline_parallel/simulate/cost_model.hpp"

namespace ultra::pipeline_parallel {

/// @brief What a rank prefers: B before F, and W when neither can begin soon, or there is no room
/// for a further F.
/// Source: Qi et al. 2023, arXiv 2401.10241, section 3.1: a warm-up and a threshold for gaps,
/// varied.
struct GreedyRule {
  std::size_t warmup = 1;  ///< passes forward but not backward, at most, on the last rank
  std::size_t slope = 1;   ///< more of them for each rank before
  double least_gap = 1;    ///< that W fills, over the seconds of a W
  /// Bytes of activations on a rank, at most.
  double most_bytes = std::numeric_limits<double>::infinity();
};

/// @brief The schedule of a rule; nothing when it leaves no room to go on.
/// @throws Interrupted when the program is told to stop.
[[nodiscard]] std::optional<PipelineSchedule> greedy_schedule(const Placement& placement,
                                                              std::size_t micro_batches,
                                                              const CostModel& costs,
                                                              const GreedyRule& rule);

/// @brief Rules that differ in warm-up and gaps.
[[nodiscard]] std::vector<GreedyRule> greedy_rules(const Placement& placement, double most_bytes);

}  // namespace ultra::pipeline_parallel

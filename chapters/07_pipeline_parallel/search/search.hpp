#pragma once
/// @file
/// Search: the schedule that ends first on given costs, with no more than so many activations.
///
/// Three sources, of which the best is taken:
/// - the published schedules that keep to the limit;
/// - greedy lists (greedy_schedule()), and lists improved step by step (improved());
/// - for few stages and micro-batches, with one chunk per rank: branch and bound
///   (branch_and_bound()), which proves that nothing is better.

#include <cstddef>
#include <limits>
#include <string>

#include "chapters/07_pipeline_parallel/schedule/pipeline_schedule.hpp"
#include "chapters/07_pipeline_parallel/simulate/model_costs.hpp"
#include "chapters/07_pipeline_parallel/simulate/simulated_step.hpp"

namespace ultra::pipeline_parallel {

/// @brief What is looked for.
struct SearchQuestion {
  ModelCosts costs = {};          ///< with one chunk per rank, and with two in a V
  std::size_t stages = 1;         ///< p
  std::size_t micro_batches = 1;  ///< m
  /// Bytes of activations that a rank may keep, as PartCost counts them.
  double most_bytes = std::numeric_limits<double>::infinity();
  std::size_t most_chunks = 2;       ///< parts of the model that a rank may hold
  std::size_t most_nodes = 200'000;  ///< of branch and bound; 0: heuristics only
  std::size_t most_tries = 2'000;    ///< schedules that are simulated to improve one
};

/// @brief What was found.
struct FoundSchedule {
  PipelineSchedule schedule;  ///< "search"
  SimulatedStep step;         ///< of it
  std::string from;           ///< "zb-v", "greedy", "improved", "branch and bound"
  /// Nothing with one chunk per rank ends earlier: all others have been excluded.
  bool is_optimal = false;
  double best_published = std::numeric_limits<double>::infinity();  ///< seconds, within the limit
};

/// @brief Finds a schedule with the least SimulatedStep::seconds(), never worse than a published
/// synchronous one within the limits.
/// @throws ConfigError when not even one micro-batch fits, and for more forward passes than can be
/// searched in a few seconds; Interrupted when the program is told to stop.
[[nodiscard]] FoundSchedule search_schedule(const SearchQuestion& question);

/// @brief Whether all ranks keep to a limit of bytes.
[[nodiscard]] bool fits(const SimulatedStep& step, double most_bytes);

}  // namespace ultra::pipeline_parallel

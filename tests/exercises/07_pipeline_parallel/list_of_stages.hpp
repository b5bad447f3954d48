#pragma once
/// @file
/// Lists of all stages, put together to a schedule that can be simulated.

#include "chapters/07_pipeline_parallel/schedule/validate.hpp"
#include "chapters/07_pipeline_parallel/simulate/simulator.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::pipeline_parallel::test {

/// @brief The lists of all stages.
/// @param list_of  gives that of a stage.
template <class ListOf>
PipelineSchedule schedule_of(Placement placement, std::size_t micro_batches,
                             const ListOf& list_of) {
  PipelineSchedule schedule{.name = "yours",
                            .placement = std::move(placement),
                            .micro_batches = micro_batches,
                            .ranks = {}};
  for (std::size_t stage = 0; stage < schedule.stages(); ++stage) {
    schedule.ranks.push_back(list_of(stage));
  }
  return schedule;
}

/// @brief Why a schedule cannot be run; empty: it can.
inline std::string why_not(const PipelineSchedule& schedule) {
  try {
    expect_valid(schedule);
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

/// @brief The micro-batches of the passes of a kind, on a chunk, in the order of a list.
inline std::vector<std::size_t> order_of(const train::StepSchedule& list, train::ActionKind kind,
                                         std::size_t chunk = 0) {
  std::vector<std::size_t> order;
  for (const train::Action& action : list) {
    if (action.kind == kind && action.chunk == chunk) order.push_back(action.micro_batch);
  }
  return order;
}

/// @brief The activations that a list keeps at most, counted by hand: F to BW.
inline std::size_t kept_by(const train::StepSchedule& list) {
  std::size_t peak = 0;
  std::size_t kept = 0;
  for (const train::Action& action : list) {
    if (action.kind == train::ActionKind::kForward && ++kept > peak) peak = kept;
    if (action.kind == train::ActionKind::kBackward && kept > 0) --kept;
  }
  return peak;
}

}  // namespace ultra::pipeline_parallel::test

#pragma once
/// @file
/// PipelineSchedule: what every rank of a pipeline does in a step, as data. The same object is
/// validated, simulated and executed.

#include <cstddef>
#include <string>
#include <vector>

#include "chapters/07_pipeline_parallel/schedule/placement.hpp"
#include "common/train/step_schedule.hpp"

namespace ultra::pipeline_parallel {

/// @brief Passes of all ranks in their orders.
struct PipelineSchedule {
  std::string name;                        ///< "1f1b", as on the command line
  Placement placement;                     ///< which rank has which parts of the model
  std::size_t micro_batches = 0;           ///< of a step
  std::vector<train::StepSchedule> ranks;  ///< by stage: its passes; messages follow from them
  /// By stage: indices, ascending, of forward passes that overlap with the backward pass after
  /// them, as one. An executor may run them one after the other. Empty: nothing overlaps.
  std::vector<std::vector<std::size_t>> overlapped = {};

  /// @brief Ranks along pp.
  [[nodiscard]] std::size_t stages() const { return placement.stages(); }
  /// @brief Which part of the model an action of a rank is of.
  [[nodiscard]] std::size_t part_of(std::size_t stage, const train::Action& action) const {
    return placement.part_at({stage, action.chunk});
  }
  /// @brief The overlapped pairs of a rank.
  [[nodiscard]] std::vector<std::size_t> overlapped_on(std::size_t stage) const {
    return stage < overlapped.size() ? overlapped[stage] : std::vector<std::size_t>{};
  }
};

}  // namespace ultra::pipeline_parallel

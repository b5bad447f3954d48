#pragma once
/// @file
/// The simulator: a schedule on a cost model.
///
/// - A rank follows its instructions one after the other; posting and sending take none of its
///   time.
/// - A pass begins when the rank is free and its message has arrived; overlapped passes begin when
///   both messages have.
/// - A message leaves when it is made, its receive is posted, and the messages before it on the
///   same link have left. One that stays on its rank takes no time.
/// - The first action begins at 0. Equal costs that are small integers give exact times.
/// Cost: O(actions).

#include "chapters/07_pipeline_parallel/schedule/messages.hpp"
#include "chapters/07_pipeline_parallel/simulate/cost_model.hpp"
#include "chapters/07_pipeline_parallel/simulate/simulated_step.hpp"

namespace ultra::pipeline_parallel {

/// @brief When every action of a schedule begins and ends.
/// @param lists  with_messages(schedule).
/// @throws InternalError when the costs are of another number of parts; Interrupted when the
/// program is told to stop.
[[nodiscard]] SimulatedStep simulate(const PipelineSchedule& schedule,
                                     const InstructionLists& lists, const CostModel& costs);

/// @brief The same, with the messages of with_messages(schedule).
[[nodiscard]] SimulatedStep simulate(const PipelineSchedule& schedule, const CostModel& costs);

}  // namespace ultra::pipeline_parallel

#pragma once
/// @file
/// The bubble of a schedule in closed form: how long a pipeline's rank waits in every step.
///
/// All parts of the model take equally long, and links are free. p stages, m micro-batches.
///
/// Exercise 07.5 (`./workbook check 07.5`).
/// Body: solutions/07_pipeline_parallel/bubble_fraction.cpp.

#include <cstddef>

#include "chapters/07_pipeline_parallel/schedule/schedule_choice.hpp"
#include "chapters/07_pipeline_parallel/simulate/cost_model.hpp"

namespace ultra::pipeline_parallel {

/// @brief How large a pipeline is.
struct PipelineShape {
  std::size_t stages = 1;         ///< p
  std::size_t micro_batches = 1;  ///< m
};

/// @brief Seconds of a step in which a rank does nothing.
///
/// Counted as the paper of a schedule does: until the step's end, or, for zero-bubble-h2 and zb-v,
/// from the rank's first action to its last (SimulatedStep::longest_span()). Of dualpipe-v the last
/// rank's, which overlaps most.
/// @param part        what a micro-batch takes in one part: a chunk, not a stage.
/// @param overlapped  seconds of an overlapped F and BW over those one after the other.
/// @pre What the schedule is made for: m >= p for zero-bubble-h1, 2 p - 1 for zero-bubble-h2 and
/// zb-v, 2 p for dualpipe-v; where W is separate, W no longer than F or B; F, B and W equal in
/// zb-v, F and B equal in dualpipe-v. For other costs simulate().
/// Source: Narayanan et al. 2021, arXiv 2104.04473, section 2.2; Qi et al. 2023, arXiv 2401.10241,
/// table 2 and section 6; the table of deepseek-ai/DualPipe, which zero_bubble.md prints (there PP
/// counts parts, and B is B and W).
[[nodiscard]] double bubble_seconds(const ScheduleChoice& choice, const PipelineShape& shape,
                                    const PartCost& part, double overlapped = 1);

/// @brief r: bubble_seconds() over the seconds that the rank works, when nothing overlaps.
[[nodiscard]] double bubble_over_ideal(const ScheduleChoice& choice, const PipelineShape& shape,
                                       const PartCost& part);

/// @brief f: the bubble over the whole step, from r.
[[nodiscard]] double bubble_over_total(double bubble_over_ideal);

}  // namespace ultra::pipeline_parallel

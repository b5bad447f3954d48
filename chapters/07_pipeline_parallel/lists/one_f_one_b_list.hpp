#pragma once
/// @file
/// 1F1B: one forward, one backward. A stage that cannot take a micro-batch back yet passes further
/// ones forward, but no more than it needs to be busy until then.
///
/// Exercise 07.2 (`./workbook check 07.2`).
/// Body: solutions/07_pipeline_parallel/one_f_one_b_list.cpp.

#include <cstddef>

#include "common/train/step_schedule.hpp"

namespace ultra::pipeline_parallel {

/// @brief A rank's passes, of its only chunk: whole backward passes, micro-batches in their order.
/// @param stage  from 0 to stages - 1.
/// Source: Narayanan et al. 2020, "PipeDream-2BW", arXiv 2006.09503 (PipeDream-Flush); Narayanan et
/// al. 2021, arXiv 2104.04473, section 2.2 and figure 4.
[[nodiscard]] train::StepSchedule one_f_one_b_list(std::size_t stage, std::size_t stages,
                                                   std::size_t micro_batches);

}  // namespace ultra::pipeline_parallel

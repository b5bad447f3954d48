#pragma once
/// @file
/// AFAB: all forward, all backward. What every rank does is the same list.
///
/// Exercise 07.1 (`./workbook check 07.1`). Body: solutions/07_pipeline_parallel/afab_list.cpp.

#include <cstddef>

#include "common/train/step_schedule.hpp"

namespace ultra::pipeline_parallel {

/// @brief A rank's passes, of its only chunk: whole backward passes, micro-batches in their order.
/// Source: Huang et al. 2019, "GPipe", arXiv 1811.06965, section 2.3.
/// Deviation: there micro-batches pass backward in the opposite order.
[[nodiscard]] train::StepSchedule afab_list(std::size_t micro_batches);

}  // namespace ultra::pipeline_parallel

#pragma once
/// @file
/// Interleaved 1F1B: a rank has several chunks of the model, each a smaller stage.
///
/// Exercise 07.3 (`./workbook check 07.3`).
/// Body: solutions/07_pipeline_parallel/interleaved_list.cpp.

#include <cstddef>

#include "common/train/step_schedule.hpp"

namespace ultra::pipeline_parallel {

/// @brief Where a rank stands among those that interleave.
struct InterleavedRank {
  std::size_t stage = 0;   ///< from 0 to stages - 1
  std::size_t stages = 1;  ///< ranks along pp
  std::size_t chunks = 1;  ///< of each rank; Placement::loop() places them
};

/// @brief A rank's passes: whole backward passes; each chunk takes micro-batches in their order.
/// @param micro_batches  a multiple of rank.stages.
/// Source: Narayanan et al. 2021, arXiv 2104.04473, section 2.2 and figure 4, with the warm-up of
/// the paper's code, Megatron-LM.
[[nodiscard]] train::StepSchedule interleaved_list(const InterleavedRank& rank,
                                                   std::size_t micro_batches);

}  // namespace ultra::pipeline_parallel

#pragma once
/// @file
/// The table that sets what a sharded run took and sent beside its closed forms.

#include <string>

#include "chapters/01_memory/recompute_mode.hpp"
#include "chapters/04_zero/estimate/sharded_bytes.hpp"
#include "common/comm/collectives/collective_algorithms.hpp"
#include "common/train/options/options.hpp"
#include "common/train/report/metrics.hpp"

namespace ultra::zero {

/// @brief Rank 0's peaks by category: the formula in units of P and N, predicted bytes, measured bytes;
/// and what it sent in a step.
///
/// P is the number of parameters, N that of the ranks that share one copy.
[[nodiscard]] std::string format_zero_memory_table(const train::TrainOptions& options,
                                                   const memory::StoredFormats& formats,
                                                   const memory::RecomputeConfig& recompute,
                                                   const ShardedRun& run,
                                                   const comm::CollectiveAlgorithms& algorithms,
                                                   const train::TrainResult& result);

}  // namespace ultra::zero

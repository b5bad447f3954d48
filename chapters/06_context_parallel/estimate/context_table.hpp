#pragma once
/// @file
/// The table that sets what a rank of a context-parallel run took, sent and computed beside its closed
/// forms.

#include <cstddef>
#include <span>
#include <string>

#include "chapters/06_context_parallel/context_parallel.hpp"
#include "chapters/06_context_parallel/estimate/context_memory.hpp"
#include "chapters/06_context_parallel/estimate/context_volume.hpp"
#include "common/train/report/metrics.hpp"

namespace ultra::context_parallel {

/// @brief How a rank of a training shares its work.
[[nodiscard]] LocalModel share_of(const train::Setup& setup, const ContextParallelOptions& options);

/// @brief The step of the first replica, whose share of the batch is a largest one.
/// @param micro_batches  its sequences; outlives the result.
[[nodiscard]] ContextStep step_of(const train::Setup& setup, const ContextParallelOptions& options,
                                  std::span<const std::size_t> micro_batches);

/// @brief Rank 0's peaks by category, predicted and measured; what a rank sends for attention in a
/// step; and what the ranks that share a sequence computed of it.
///
/// States are averages over the ranks that share them (ZeRO); without sharding they are exact.
[[nodiscard]] std::string format_context_table(const train::Setup& setup,
                                               const ContextParallelOptions& options,
                                               const train::TrainResult& result);

}  // namespace ultra::context_parallel

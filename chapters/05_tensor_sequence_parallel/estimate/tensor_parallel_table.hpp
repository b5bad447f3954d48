#pragma once
/// @file
/// The table that sets what a rank of a tensor-parallel run took and sent beside its closed forms.

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "chapters/04_zero/zero_memory.hpp"
#include "chapters/05_tensor_sequence_parallel/estimate/tensor_parallel_volume.hpp"
#include "chapters/05_tensor_sequence_parallel/options/tensor_parallel_options.hpp"
#include "common/tensor/memory_tracker.hpp"
#include "common/train/cli/technique.hpp"
#include "common/train/report/metrics.hpp"

namespace ultra::tensor_parallel {

/// @brief The step of the first replica, whose share of the batch is a largest one.
/// @param setup          all flags of a training.
/// @param micro_batches  its sequences; outlives the result.
[[nodiscard]] TensorStep step_of(const train::Setup& setup, const TensorParallelOptions& options,
                                 std::span<const std::size_t> micro_batches);

/// What a closed form says of a category; nothing where there is none.
using PredictedBytes = std::function<std::optional<std::size_t>(MemoryCategory)>;

/// @brief What closed forms say of a rank: of its states, and of its activations.
[[nodiscard]] PredictedBytes predicted_bytes(const zero::RankBytes& states,
                                             std::size_t activations);

/// @brief A rank's peaks by category, predicted and measured, below their heads.
[[nodiscard]] std::string memory_columns(const PredictedBytes& predicted,
                                         const train::RankSummary& rank);

/// @brief Rank 0's peaks by category, predicted and measured; and what the replica's ranks send to
/// each other in a step.
///
/// States are averages over the ranks that share them (ZeRO); without sharding they are exact.
[[nodiscard]] std::string format_tensor_parallel_table(const train::Setup& setup,
                                                       const TensorParallelOptions& options,
                                                       const train::TrainResult& result);

}  // namespace ultra::tensor_parallel

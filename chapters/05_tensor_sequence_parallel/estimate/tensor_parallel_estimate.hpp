#pragma once
/// @file
/// `05_tensor_sequence_parallel --estimate MODEL --tp N`: the formulas of tensor_parallel_memory.hpp
/// as a table and as JSON.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "chapters/01_memory/estimate/estimate_report.hpp"
#include "chapters/01_memory/memory_options.hpp"
#include "chapters/04_zero/zero_memory.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel_layout.hpp"
#include "common/base/json.hpp"
#include "common/train/options/options.hpp"

namespace ultra::tensor_parallel {

/// @brief A question about the memory of one rank.
struct TensorParallelRequest {
  memory::EstimateRequest model;  ///< the model, its micro-batch per rank, formats, recomputation
  TensorParallelLayout layout;    ///< how it is split
  zero::Sharding sharding = {};   ///< which states are shared with ranks that have the same part

  /// @brief Checks that there is such a model, and that it can be split.
  /// @throws ConfigError naming the flag, its value and what would work.
  void validate() const;
};

/// @brief The answer, for each of the ranks: they need the same.
struct RankEstimate {
  TensorParallelLayout layout;            ///< how the model is split
  std::size_t parameter_count = 0;        ///< weights of the rank's part
  zero::RankBytes states;                 ///< what it keeps from step to step
  std::size_t activations_per_layer = 0;  ///< bytes that one block keeps for its backward pass
  std::size_t peak_activations = 0;       ///< highest bytes of activations within the step

  /// @brief Bytes of states and of the activations at their peak.
  [[nodiscard]] double total() const {
    return states.total() + static_cast<double>(peak_activations);
  }
  /// @brief Whether memory::kGpuBytes are enough.
  [[nodiscard]] bool fits() const { return total() <= static_cast<double>(memory::kGpuBytes); }
};

/// @brief The same number of ranks, without and with sequence parallelism.
struct RankEstimatePair {
  RankEstimate without;  ///< SequenceParallel::kOff
  std::optional<RankEstimate>
      with;  ///< kOn; absent for one rank, and where tp does not divide --seq
};

/// @brief Computes the answer for one layout.
/// @throws ConfigError when the request is not valid.
[[nodiscard]] RankEstimate estimate_rank(const TensorParallelRequest& request);

/// @brief The answers for 1 rank and more, up to the requested number: its divisors into which the
/// model can be split.
/// @throws ConfigError when the request is not valid.
[[nodiscard]] std::vector<RankEstimatePair> estimate_up_to(const TensorParallelRequest& request);

/// @brief The answers of estimate_up_to as lines for the terminal.
///
/// GB = 1e9 bytes; MB where one rank alone needs less than 10 GB.
/// @throws ConfigError when the request is not valid.
[[nodiscard]] std::string format_ranks(const TensorParallelRequest& request);

/// @brief The same as members of a JSON object: "tp", "sequence_parallel", "zero", "per_rank" (what was
/// asked for), "layouts" (a list, one entry per tp); bytes of states are averages, as real numbers.
/// @throws ConfigError when the request is not valid.
[[nodiscard]] Json ranks_to_json(const TensorParallelRequest& request);

/// @brief The answer to --estimate, for stdout: a table, or one JSON object with --json.
///
/// Chapter 01's estimate, for one device that holds everything, and behind it the memory per rank.
/// @param options   MODEL, --precision, --recompute, --json.
/// @param train     --seq and --micro-batch.
/// @param layout    --tp and --sp.
/// @param sharding  --zero over the ranks that have the same part of the model: those of --dp.
/// @throws ConfigError for an unknown model, a size such as 7.5B, which does not say what its
/// matrices are, and for a model that cannot be or cannot be split.
[[nodiscard]] std::string answer(const memory::MemoryOptions& options,
                                 const train::TrainOptions& train,
                                 const TensorParallelLayout& layout,
                                 const zero::Sharding& sharding = {});

}  // namespace ultra::tensor_parallel

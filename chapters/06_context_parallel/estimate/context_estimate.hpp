#pragma once
/// @file
/// `06_context_parallel --estimate MODEL --cp N`: the formulas of context_memory.hpp as a table and as
/// JSON.

#include <string>
#include <vector>

#include "chapters/01_memory/estimate/estimate_report.hpp"
#include "chapters/01_memory/memory_options.hpp"
#include "chapters/04_zero/zero_memory.hpp"
#include "chapters/06_context_parallel/estimate/context_memory.hpp"
#include "common/train/options/options.hpp"

namespace ultra::context_parallel {

/// @brief A question about the memory of one rank.
struct ContextRequest {
  memory::EstimateRequest model;  ///< the model, its micro-batch, formats, recomputation
  LocalModel share;               ///< into how many parts it is cut
  zero::Sharding sharding;        ///< of its states over dp times cp ranks

  /// @brief Checks that there is such a model, and that it can be split.
  /// @throws ConfigError naming the flag, its value and what would work.
  void validate() const;
};

/// @brief The answer, for each of the ranks: they need the same.
struct ContextEstimate {
  int cp = 1;                             ///< ranks that share a sequence
  std::size_t local_seq_len = 0;          ///< tokens of it per rank, with padding
  zero::RankBytes states;                 ///< what a rank keeps from step to step
  std::size_t activations_per_layer = 0;  ///< bytes that one block keeps
  std::size_t peak_activations = 0;       ///< highest bytes of activations within the step

  /// @brief Bytes of states and of the activations at their peak.
  [[nodiscard]] double total() const {
    return states.total() + static_cast<double>(peak_activations);
  }
  /// @brief Whether memory::kGpuBytes are enough.
  [[nodiscard]] bool fits() const { return total() <= static_cast<double>(memory::kGpuBytes); }
};

/// @brief The answers for 1 rank and more, up to the requested number: its divisors.
/// @throws ConfigError when the request is not valid.
[[nodiscard]] std::vector<ContextEstimate> estimate_up_to(const ContextRequest& request);

/// @brief The answer to --estimate, for stdout: a table, or one JSON object with --json.
///
/// Chapter 01's estimate, for one device that holds everything, and behind it the memory per rank.
/// @param sharding  --zero and --hybrid-shard, over dp times cp ranks.
/// @throws ConfigError for an unknown model, and for one that cannot be or cannot be split.
[[nodiscard]] std::string answer(const memory::MemoryOptions& options,
                                 const train::TrainOptions& train, const LocalModel& share,
                                 const zero::Sharding& sharding);

}  // namespace ultra::context_parallel

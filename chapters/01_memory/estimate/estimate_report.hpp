#pragma once
/// @file
/// `01_memory --estimate`: the closed forms of memory_estimate.hpp as a table and as JSON.

#include <cstddef>
#include <string>

#include "chapters/01_memory/memory_estimate.hpp"
#include "common/base/json.hpp"

namespace ultra::memory {

/// Memory of the GPU that the report asks about: 80 GB, as on the A100 and the H100.
inline constexpr std::size_t kGpuBytes = 80'000'000'000;

/// @brief A question to the estimate.
struct EstimateRequest {
  TransformerShape shape;                               ///< the model
  BatchShape batch;                                     ///< what one pass works on
  NumberFormats precision = NumberFormats::kBf16Mixed;  ///< formats of the numbers
  RecomputeConfig recompute = {};                       ///< which activations are kept

  /// @brief Checks that there is such a model and that it can take the batch.
  /// @throws ConfigError naming the flag, its value and what would work.
  void validate() const;
};

/// @brief The answer, in bytes. One device holds everything; nothing is sharded.
struct MemoryEstimate {
  EstimateRequest request;                ///< what was asked
  std::size_t parameter_count = 0;        ///< weights
  StateBytes states;                      ///< of the whole model
  std::size_t activations_per_layer = 0;  ///< what one block keeps for its backward pass
  std::size_t kept_by_blocks = 0;         ///< what all blocks keep together
  std::size_t recomputed_layer = 0;  ///< all activations of one block, as without recomputation
  OutsideBytes outside;              ///< what embedding and head keep
  std::size_t peak_activations = 0;  ///< highest bytes of activations within the step

  /// @brief States and the activations at their peak.
  [[nodiscard]] std::size_t total() const { return states.total() + peak_activations; }

  /// @brief GPUs of kGpuBytes that could hold the total if it were split without any waste.
  [[nodiscard]] std::size_t min_gpus() const;
};

/// @brief Computes the estimate.
/// @throws ConfigError when the request is not valid.
[[nodiscard]] MemoryEstimate estimate_memory(const EstimateRequest& request);

/// @brief The estimate as lines for the terminal, the last one ended too.
///
/// GB = 1e9 bytes, GiB = 2^30 bytes; MB and MiB below 10 GB in total.
[[nodiscard]] std::string format_estimate(const MemoryEstimate& estimate);

/// @brief The estimate as a JSON object; sizes are integers in bytes.
[[nodiscard]] Json estimate_to_json(const MemoryEstimate& estimate);

}  // namespace ultra::memory

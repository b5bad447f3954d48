#pragma once
/// @file
/// The command-line options of tensor and sequence parallelism.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "chapters/05_tensor_sequence_parallel/tensor_parallel_factory.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel_layout.hpp"
#include "common/train/options/cli_fwd.hpp"
#include "common/train/report/metrics.hpp"

namespace ultra::tensor_parallel {

/// @brief "none", "backward" or "ring".
[[nodiscard]] std::string_view to_string(TensorOverlap overlap);

/// @brief What --shapes prints instead of training.
enum class Shapes : std::uint8_t {
  kNone,     ///< nothing: train
  kTable,    ///< every tensor along a block
  kCompare,  ///< one device, tensor parallelism and both side by side
  kJson,     ///< the table as JSON
};

/// @brief How many ranks share each matrix, and how they communicate.
struct TensorParallelOptions {
  std::size_t tp = 1;                                           ///< --tp
  SequenceParallel sequence_parallel = SequenceParallel::kOff;  ///< --sp
  TensorOverlap overlap = TensorOverlap::kBackward;             ///< --tp-overlap
  Shapes shapes = Shapes::kNone;                                ///< --shapes

  /// @brief Adds the flags to a command line.
  void add_to(CLI::App& app);

  /// @brief Checks the values against each other.
  /// @throws ConfigError that says what does not fit and what to do.
  void validate() const;

  /// @brief Whether matrices are split at all.
  [[nodiscard]] bool splits() const { return tp > 1; }

  /// @brief How a model is split.
  [[nodiscard]] TensorParallelLayout layout() const;

  /// @brief These flags for the metrics file.
  [[nodiscard]] train::ExtraConfig config() const;

 private:
  bool overlap_given_ = false;
};

}  // namespace ultra::tensor_parallel

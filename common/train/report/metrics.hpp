#pragma once
/// @file
/// The metrics file: JSON lines, the stable interface for notebooks and scripts.

#include <cstddef>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/atomic_file.hpp"
#include "common/train/options/options.hpp"
#include "common/train/report/rank_summary.hpp"

namespace ultra::train {

/// @brief What one optimizer step gave.
struct StepMetrics {
  std::size_t step;          ///< 1 for the first
  double loss;               ///< mean over the tokens of the global batch
  double grad_norm;          ///< global norm before clipping
  double learning_rate;      ///< of this step
  double tokens_per_second;  ///< tokens of the global batch over the step's wall time
  /// What a technique has measured in this step, by name.
  std::map<std::string, std::vector<double>> figures = {};
  /// Mean loss on the text of --val-data after the step, where a validation followed it.
  std::optional<double> validation_loss = {};
  /// Mean loss of the tokens after next, without its weight, where they are predicted.
  std::optional<double> next_loss = {};
};

/// @brief What a whole run gave.
struct TrainResult {
  std::vector<StepMetrics> steps;  ///< one per optimizer step, with those of earlier runs
  std::size_t earlier_steps = 0;   ///< how many of them earlier runs have made
  std::size_t parameters = 0;      ///< elements of the whole model
  double seconds = 0;              ///< wall time of this run's steps
  std::vector<RankSummary> ranks;  ///< one per rank

  /// @brief Steps that this run has made.
  [[nodiscard]] std::size_t steps_made() const { return steps.size() - earlier_steps; }
  /// @brief Tokens of this run's steps over their wall time.
  [[nodiscard]] double tokens_per_second(const TrainOptions& options) const;
};

/// Flags of a chapter as they stand in the summary's "config": name and value.
using ExtraConfig =
    std::vector<std::pair<std::string, std::variant<std::string, std::size_t, double>>>;

/// @brief The flags of several parts of a program, one after the other.
[[nodiscard]] ExtraConfig joined(std::initializer_list<ExtraConfig> configs);

/// @brief One event per step and one summary event; the file appears when finish() has run.
class MetricsFile {
 public:
  /// @param path  empty for no file.
  /// @throws FileError when the file cannot be made.
  explicit MetricsFile(const std::string& path);

  /// @brief Writes the step events and the summary event, and moves the file to its place.
  /// @throws FileError when the disk is full.
  void finish(const TrainOptions& options, const ExtraConfig& extra, const TrainResult& result);

 private:
  std::optional<AtomicFile> file_;
};

}  // namespace ultra::train

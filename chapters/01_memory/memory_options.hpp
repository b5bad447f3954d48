#pragma once
/// @file
/// The command-line options that chapter 01 adds to the trainer's.

#include <string>

#include "chapters/01_memory/estimate/estimate_report.hpp"
#include "chapters/01_memory/recompute_mode.hpp"
#include "common/train/options/cli_fwd.hpp"
#include "common/train/options/options.hpp"
#include "common/train/report/metrics.hpp"

namespace ultra::memory {

/// @brief --recompute, --recompute-every, and --estimate with its own flags.
struct MemoryOptions {
  RecomputeConfig recompute;                            ///< --recompute, --recompute-every
  std::string estimate;                                 ///< a model's name; empty means: train
  NumberFormats precision = NumberFormats::kBf16Mixed;  ///< --precision of the estimate
  bool json = false;                                    ///< --json: the estimate as JSON

  /// @brief Adds the flags to a command line.
  void add_to(CLI::App& app);

  /// @brief Checks the flags against each other.
  /// @throws ConfigError when a flag is given that has no meaning without another.
  void validate() const;

  /// @brief True when an estimate is asked for, not training.
  [[nodiscard]] bool estimates() const { return !estimate.empty(); }

  /// @brief The question to the estimate; sequence and micro-batch are the trainer's flags.
  /// @throws ConfigError for an unknown model.
  [[nodiscard]] EstimateRequest request(const train::TrainOptions& options) const;

  /// @brief The answer to --estimate, for stdout: a table, or JSON with --json.
  /// @throws ConfigError for an unknown model and for one that cannot be.
  [[nodiscard]] std::string answer(const train::TrainOptions& options) const;

  /// @brief These flags for the metrics file.
  [[nodiscard]] train::ExtraConfig config() const;

 private:
  bool precision_given_ = false;
};

}  // namespace ultra::memory

#pragma once
/// @file
/// The command-line options of checkpoints.

#include <cstddef>
#include <string>

#include "common/train/options/cli_fwd.hpp"
#include "common/train/report/metrics.hpp"

namespace ultra::zero {

/// @brief Where a training's state is saved, how often, and from where it goes on.
struct CheckpointOptions {
  std::string folder;          ///< --checkpoint; empty: nothing is saved
  std::size_t save_every = 0;  ///< --save-every: steps; 0: only at the end
  std::size_t keep = 0;        ///< --keep: checkpoints that stay; 0: all
  std::string resume;          ///< --resume; empty: the training begins at its first step

  /// @brief Adds the flags to a command line.
  void add_to(CLI::App& app);

  /// @brief Checks that no flag is given without the one that gives it a meaning.
  /// @throws ConfigError that says what is missing.
  void validate() const;

  /// @brief Whether any state is saved or loaded.
  [[nodiscard]] bool used() const { return !folder.empty() || !resume.empty(); }

  /// @brief These flags for the metrics file.
  [[nodiscard]] train::ExtraConfig config() const;

 private:
  bool save_every_given_ = false;
  bool keep_given_ = false;
};

}  // namespace ultra::zero

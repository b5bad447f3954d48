#pragma once
/// @file
/// A worker whose training can be stopped and go on: by checkpoints.

#include <cstddef>
#include <memory>
#include <string>

#include "common/checkpoint/files/file_layer.hpp"
#include "common/train/cli/technique.hpp"
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

/// @brief Puts a worker around one: it makes the other's steps, loads its state before the first
/// and saves it between steps.
///
/// Every step is made as without checkpoints: what is computed does not change by a bit.
/// @param trainer   what the inner worker trains with.
/// @param identity  of the training: train::Setup::identity().
/// @param files     outlives the result.
/// @throws ConfigError when the checkpoint is of another training or has more steps than this one,
/// or when the folder for new ones holds others; FileError for what cannot be read or written, and
/// when another run writes to that folder: on all ranks. Collective.
[[nodiscard]] std::unique_ptr<train::Worker> with_checkpoints(std::unique_ptr<train::Worker> worker,
                                                              const train::TrainerState& trainer,
                                                              const train::Identity& identity,
                                                              const CheckpointOptions& options,
                                                              checkpoint::FileLayer& files);

/// @brief --checkpoint and --resume as a technique.
[[nodiscard]] std::unique_ptr<train::Technique> checkpoints();

}  // namespace ultra::zero

#pragma once
/// @file
/// A worker whose training can be stopped and go on: by checkpoints.

#include <memory>

#include "chapters/04_zero/checkpoints/checkpoint_options.hpp"
#include "common/checkpoint/files/file_layer.hpp"
#include "common/train/program/technique.hpp"

namespace ultra::zero {

/// @brief Puts a worker around one: it makes the other's steps, loads its state before the first
/// and saves it between steps.
///
/// Every step is made as without checkpoints: what is computed does not change by a bit.
/// @param trainer  what the inner worker trains with.
/// @param identity  of the training: train::Setup::identity().
/// @param files    outlives the result.
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

#pragma once
/// @file
/// A worker whose training can be stopped and go on: by checkpoints.

#include <memory>

#include "chapters/04_zero/checkpoints/checkpoint_options.hpp"
#include "chapters/04_zero/checkpoints/training_state.hpp"
#include "common/checkpoint/file_layer.hpp"
#include "common/train/worker.hpp"

namespace ultra::zero {

/// @brief Makes workers that make other ones' steps, load their state before the first and save it
/// between steps.
///
/// Every step is made as without checkpoints: what is computed does not change by a bit.
/// @param files  outlives the workers.
/// The result throws ConfigError when the checkpoint is of another training or has more steps than this one, or
/// when the folder for new ones holds others; FileError for what cannot be read or written: on all ranks.
/// It is collective.
[[nodiscard]] KeepState with_checkpoints(const CheckpointOptions& options,
                                         checkpoint::FileLayer& files);

}  // namespace ultra::zero

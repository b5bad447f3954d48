#pragma once
/// @file
/// Reading a checkpoint into a training of any layout.

#include <filesystem>

#include "chapters/04_zero/checkpoints/training_record.hpp"
#include "chapters/04_zero/checkpoints/training_state.hpp"
#include "common/checkpoint/files/file_layer.hpp"
#include "common/comm/communicator.hpp"

namespace ultra::zero {

/// @brief Loads the state of a checkpoint, however many ranks have written it.
///
/// Before, every byte of the checkpoint is compared with its checksum, each by one of the ranks.
/// Collective over world.
/// @param folder    of the checkpoint, complete.
/// @param identity  of this training.
/// @return what the checkpoint says about the training.
/// @throws ConfigError when it is of another training; FileError when a file is missing, cannot be
/// read, is damaged, or holds what another program has put there: on all ranks, before anything of
/// the state has changed or after which nothing goes on.
[[nodiscard]] TrainingRecord load_checkpoint(checkpoint::FileLayer& files,
                                             const std::filesystem::path& folder,
                                             const TrainingIdentity& identity, TrainingState& state,
                                             const Communicator& world);

}  // namespace ultra::zero

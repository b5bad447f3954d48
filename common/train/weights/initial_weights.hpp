#pragma once
/// @file
/// --init: a training that begins with weights from a folder instead of random ones.

#include <string>

#include "common/checkpoint/files/file_layer.hpp"
#include "common/comm/communicator.hpp"
#include "common/train/model_worker.hpp"
#include "common/train/options/options.hpp"

namespace ultra::train {

/// @brief Takes the model's sizes from the folder of --init, where it is given: all but --seq, which
/// may be shorter than the positions that the model knows.
/// @throws ConfigError when there is no such folder, or a flag says something else: it names both
/// values; FileError for a folder that has no model of ours: see checkpoint::parse_model_config().
void adopt_model(TrainOptions& options, checkpoint::FileLayer& files = checkpoint::posix_files());

/// @brief A model's sizes in one line, to compare between ranks.
[[nodiscard]] std::string described(const nn::ModelConfig& model);

/// @brief Checks that a folder has the weights of a model, before that model is made.
/// @param folder   of the run's --init.
/// @param factory  of the model's parts.
/// @param world    the ranks that train.
/// @throws FileError, on every rank alike, that says what the folder has and what config.json says.
/// Collective over world.
void expect_initial_weights(const std::string& folder, const nn::ModelConfig& model,
                            nn::LayerFactory& factory, const Communicator& world,
                            checkpoint::FileLayer& files = checkpoint::posix_files());

/// @brief Replaces the weights of a rank, before its first step, by those of a folder. Each rank
/// reads the bytes of its own pieces, and no others.
/// @param folder   of the run's --init; the same model on every rank.
/// @param trainer  what the rank trains with.
/// @param world    the ranks that train.
/// @throws FileError, on every rank alike, when the folder does not have the weights of this model.
/// Collective over world.
/// Memory: beside the weights, those of one piece (a parameter, or the rank's shard of it).
void load_initial_weights(const std::string& folder, const TrainerState& trainer,
                          const Communicator& world,
                          checkpoint::FileLayer& files = checkpoint::posix_files());

}  // namespace ultra::train

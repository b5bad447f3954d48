#pragma once
/// @file
/// The training loop.

#include <functional>

#include "common/comm/communicator.hpp"
#include "common/data/dataset.hpp"
#include "common/nn/layer_factory.hpp"
#include "common/nn/model.hpp"
#include "common/optim/adamw.hpp"
#include "common/train/metrics.hpp"
#include "common/train/options.hpp"

namespace ultra::train {

/// @brief Forward and backward over the global batch of a step (0 for the first): leaves the
/// gradient of the mean loss in the parameters and returns the mean loss.
///
/// With several ranks each does its part of that work; gradients of weights that several ranks hold,
/// and the loss, are the same on all of them afterwards.
using ForwardBackward =
    std::function<double(nn::Model& model, const data::Sampler& sampler, std::size_t step)>;

/// @brief The parts of training that techniques replace.
struct TrainerParts {
  nn::LayerFactory& factory;         ///< makes the model's layers
  ForwardBackward forward_backward;  ///< how a global batch passes through the model
  optim::AdamWUpdate adamw;          ///< the optimizer's update of one tensor
  ExtraConfig extra_config;          ///< the chapter's own flags, for the metrics file
};

/// @brief Trains a model on the ranks of `world`; rank 0 shows progress on stdout and writes metrics
/// and trace for all.
///
/// Collective: every rank calls it, with the same options and with parts of its own.
/// @return the same on every rank, but for the times of the steps, which are the rank's own.
/// @throws ConfigError for options that do not fit and FileError for files that cannot be read or
/// written, before the first step and the same on every rank (see agree()); NumericError when the
/// loss or the gradient is not finite; Interrupted when the program was told to stop. No partial
/// file is left behind.
[[nodiscard]] TrainResult train(const TrainOptions& options, const TrainerParts& parts,
                                const Communicator& world);

/// @brief Trains a model on one rank: train() in a world of its own.
/// @throws ConfigError also when mpirun started several processes.
[[nodiscard]] TrainResult train(const TrainOptions& options, const TrainerParts& parts);

}  // namespace ultra::train

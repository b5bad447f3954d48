#pragma once
/// @file
/// The training loop.

#include <functional>

#include "common/data/dataset.hpp"
#include "common/nn/layer_factory.hpp"
#include "common/nn/model.hpp"
#include "common/optim/adamw.hpp"
#include "common/train/metrics.hpp"
#include "common/train/options.hpp"

namespace ultra::train {

/// @brief Forward and backward over the global batch of a step (0 for the first): leaves the
/// gradient of the mean loss in the parameters and returns the mean loss.
using ForwardBackward =
    std::function<double(nn::Model& model, const data::Sampler& sampler, std::size_t step)>;

/// @brief The parts of training that techniques replace.
struct TrainerParts {
  nn::LayerFactory& factory;         ///< makes the model's layers
  ForwardBackward forward_backward;  ///< how a global batch passes through the model
  optim::AdamWUpdate adamw;          ///< the optimizer's update of one tensor
  ExtraConfig extra_config;          ///< the chapter's own flags, for the metrics file
};

/// @brief Trains a model on one rank, shows progress on stdout, writes metrics and trace.
/// @throws ConfigError for options that do not fit, FileError for files that cannot be read or
/// written (before the first step), NumericError when the loss or the gradient is not finite,
/// Interrupted when the program was told to stop. No partial file is left behind.
[[nodiscard]] TrainResult train(const TrainOptions& options, const TrainerParts& parts);

}  // namespace ultra::train

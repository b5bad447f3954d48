#pragma once
/// @file
/// ModelWorker: a rank that trains a whole model, from parts that techniques replace.

#include <cstddef>
#include <functional>

#include "common/data/dataset.hpp"
#include "common/nn/layer_factory.hpp"
#include "common/nn/model.hpp"
#include "common/train/report/metrics.hpp"
#include "common/train/update.hpp"
#include "common/train/worker.hpp"

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
  Update update;                     ///< how its gradients change the weights; see clipped_adamw
  ExtraConfig extra_config;          ///< the chapter's own flags, for the metrics file
  nn::Values values = nn::Values::kAllocated;  ///< whether the model starts with weights
};

/// @brief Each step: forward and backward passes, update of the weights, gradients freed.
///
/// The timeline shows the passes of each block, and the optimizer step.
class ModelWorker : public Worker {
 public:
  /// @brief Makes the model of context.options on context.device.
  /// @param context  valid as long as this.
  /// @param parts    its factory outlives this.
  ModelWorker(const RunContext& context, TrainerParts parts);

  /// @brief Forward, backward, update.
  /// @throws NumericError when the loss is not finite.
  StepOutcome step(const StepPlan& plan) override;

  /// @brief Elements of the weights of which this rank has all, or a shard.
  [[nodiscard]] std::size_t parameter_count() const override;

  /// @brief The rank's model.
  [[nodiscard]] nn::Model& model() { return model_; }

 private:
  void name_phases();

  RunContext context_;
  TrainerParts parts_;
  nn::Model model_;
};

}  // namespace ultra::train

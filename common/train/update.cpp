#include "common/train/update.hpp"

#include <memory>
#include <utility>
#include <vector>

#include "common/optim/clip.hpp"
#include "common/train/divergence.hpp"

namespace ultra::train {

double gradient_norm(std::span<const GradientPiece> pieces) {
  std::vector<Tensor> grads;
  for (const GradientPiece& piece : pieces) grads.push_back(piece.grad);
  return optim::global_norm(grads);
}

bool decays(const nn::Parameter& parameter) { return parameter.global_shape().rank() > 1; }

Update clipped_adamw(const TrainOptions& options, optim::AdamWUpdate update) {
  return clipped_adamw(options,
                       std::make_shared<optim::AdamW>(optim::AdamWConfig{}, std::move(update)));
}

Update clipped_adamw(const TrainOptions& options, std::shared_ptr<optim::AdamW> optimizer,
                     FinishGradients finish) {
  return [options, optimizer = std::move(optimizer), finish = std::move(finish)](
             nn::Model& model, const StepPlan& plan) {
    std::vector<GradientPiece> pieces;
    std::vector<optim::TensorUpdate> updates;
    for (nn::Parameter* parameter : model.parameters()) {
      pieces.push_back({.parameter = parameter, .grad = parameter->grad()});
      updates.push_back(
          {.value = parameter->value(), .grad = parameter->grad(), .decay = decays(*parameter)});
    }
    const double norm = finish(pieces);
    expect_finite("gradient norm", norm, plan.step, options);
    optimizer->step(updates, plan.learning_rate, optim::clip_coefficient(norm, options.clip_norm));
    return norm;
  };
}

}  // namespace ultra::train

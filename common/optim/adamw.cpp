#include "common/optim/adamw.hpp"

#include <fmt/format.h>

#include <utility>

#include "common/base/errors.hpp"

namespace ultra::optim {

AdamW::AdamW(const AdamWConfig& config, AdamWUpdate update)
    : config_(config), update_(std::move(update)) {}

void AdamW::allocate(std::span<const TensorUpdate> updates) {
  for (const TensorUpdate& u : updates) {
    const auto zeros = [&] {
      return Tensor::zeros(u.value.device(), u.value.shape(), u.value.dtype(),
                           MemoryCategory::kOptimizer);
    };
    moments_.push_back({zeros(), zeros()});
  }
}

void AdamW::step(std::span<const TensorUpdate> updates, double learning_rate,
                 double gradient_scale) {
  if (steps_ == 0) allocate(updates);
  if (updates.size() != moments_.size()) {
    throw ShapeError(fmt::format("AdamW holds the moments of {} tensors, found {}", moments_.size(),
                                 updates.size()));
  }
  for (std::size_t i = 0; i < updates.size(); ++i) {
    if (updates[i].value.shape() == moments_[i].first.shape()) continue;
    throw ShapeError(fmt::format("AdamW: tensor {} has shape {}, its moments have {}", i,
                                 updates[i].value.shape().str(), moments_[i].first.shape().str()));
  }
  ++steps_;
  for (std::size_t i = 0; i < updates.size(); ++i) {
    const TensorUpdate& u = updates[i];
    update_(u.value, u.grad, moments_[i].first, moments_[i].second,
            {.learning_rate = learning_rate,
             .beta1 = config_.beta1,
             .beta2 = config_.beta2,
             .epsilon = config_.epsilon,
             .weight_decay = u.decay ? config_.weight_decay : 0.0,
             .gradient_scale = gradient_scale,
             .step = steps_});
  }
}

}  // namespace ultra::optim

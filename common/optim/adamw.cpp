#include "common/optim/adamw.hpp"

#include <fmt/format.h>

#include <utility>

#include "common/base/errors.hpp"

namespace ultra::optim {
namespace {

/// Weights of which there is one copy, in the type that they are updated in.
WeightStep in_place(AdamWUpdate update) {
  return [update = std::move(update)](std::size_t, const TensorUpdate& u, const Moments& moments,
                                      const ops::AdamWStep& constants) {
    ensure(!u.master.defined(), "somebody rounds master weights: change_weights_by()");
    update(u.value, u.grad, moments.first, moments.second, constants);
  };
}

}  // namespace

AdamW::AdamW(const AdamWConfig& config, AdamWUpdate update, std::unique_ptr<MomentStore> moments)
    : config_(config), weight_step_(in_place(std::move(update))), moments_(std::move(moments)) {}

void AdamW::resume(int steps, std::span<const Tensor> values) {
  ensure(steps_ == 0 && shapes_.empty(), "an optimizer that goes on has made no step of its own");
  moments_->allocate(values);
  for (const Tensor& value : values) shapes_.push_back(value.shape());
  steps_ = steps;
}

void AdamW::expect_same_tensors(std::span<const TensorUpdate> updates) const {
  if (updates.size() != shapes_.size()) {
    throw ShapeError(fmt::format("AdamW holds the moments of {} tensors, found {}", shapes_.size(),
                                 updates.size()));
  }
  for (std::size_t i = 0; i < updates.size(); ++i) {
    if (updates[i].value.shape() == shapes_[i]) continue;
    throw ShapeError(fmt::format("AdamW: tensor {} has shape {}, its moments have {}", i,
                                 updates[i].value.shape().str(), shapes_[i].str()));
  }
}

void AdamW::step(std::span<const TensorUpdate> updates, double learning_rate,
                 double gradient_scale) {
  if (steps_ == 0 && shapes_.empty()) {
    std::vector<Tensor> values;
    for (const TensorUpdate& u : updates) values.push_back(u.value);
    resume(0, values);
  }
  expect_same_tensors(updates);
  ++steps_;
  for (std::size_t i = 0; i < updates.size(); ++i) {
    const TensorUpdate& u = updates[i];
    const Moments moments = moments_->borrow(i);
    weight_step_(i, u, moments,
                 {.learning_rate = learning_rate,
                  .beta1 = config_.beta1,
                  .beta2 = config_.beta2,
                  .epsilon = config_.epsilon,
                  .weight_decay = u.decay ? config_.weight_decay : 0.0,
                  .gradient_scale = gradient_scale * gradient_factor_,
                  .step = steps_});
    moments_->give_back(i);
  }
  moments_->end_step();
}

}  // namespace ultra::optim

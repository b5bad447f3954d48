#include "common/optim/optimizer.hpp"

#include <fmt/format.h>

#include <utility>

#include "common/base/errors.hpp"

namespace ultra::optim {

Optimizer::Optimizer(Rule rule, std::unique_ptr<StateStore> store)
    : rule_(std::move(rule)), store_(std::move(store)) {
  ensure(rule_ != nullptr, "an optimizer has a rule");
}

void Optimizer::resume(int steps, std::span<const Tensor> values) {
  ensure(steps_ == 0 && shapes_.empty(), "an optimizer that goes on has made no step of its own");
  store_->allocate(values, specs());
  for (const Tensor& value : values) shapes_.push_back(value.shape());
  steps_ = steps;
}

void Optimizer::expect_same_tensors(std::span<const TensorUpdate> updates) const {
  if (updates.size() != shapes_.size()) {
    throw ShapeError(fmt::format("The optimizer holds the states of {} tensors, found {}",
                                 shapes_.size(), updates.size()));
  }
  for (std::size_t i = 0; i < updates.size(); ++i) {
    if (updates[i].value.shape() == shapes_[i]) continue;
    throw ShapeError(fmt::format("Optimizer: tensor {} has shape {}, its states have {}", i,
                                 updates[i].value.shape().str(), shapes_[i].str()));
  }
}

// [region step]
void Optimizer::step(std::span<const TensorUpdate> updates, double learning_rate,
                     double gradient_scale) {
  if (steps_ == 0 && shapes_.empty()) {
    std::vector<Tensor> values;
    for (const TensorUpdate& u : updates) values.push_back(u.value);
    resume(0, values);
  }
  expect_same_tensors(updates);
  ++steps_;
  const StepConstants constants{.learning_rate = learning_rate,
                                .gradient_scale = gradient_scale * gradient_factor_,
                                .step = steps_};
  for (std::size_t i = 0; i < updates.size(); ++i) {
    rule_->apply(i, updates[i], store_->borrow(i), constants);
    store_->give_back(i);
  }
  store_->end_step();
}
// [/region]

}  // namespace ultra::optim

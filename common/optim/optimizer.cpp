#include "common/optim/optimizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "common/base/errors.hpp"

namespace ultra::optim {

Optimizer::Optimizer(Rule rule, std::unique_ptr<StateStore> store, std::vector<WeightKind> kinds,
                     std::unique_ptr<MatrixExchange> whole)
    : rule_(std::move(rule)),
      store_(std::move(store)),
      kinds_(std::move(kinds)),
      whole_(std::move(whole)) {
  ensure(rule_ != nullptr, "an optimizer has a rule");
}

void Optimizer::resume(int steps, std::span<const Tensor> values) {
  ensure(steps_ == 0 && shapes_.empty(), "an optimizer that goes on has made no step of its own");
  std::vector<StateSpecs> of_values;
  for (std::size_t i = 0; i < values.size(); ++i) of_values.push_back(specs(i));
  store_->allocate(values, of_values);
  for (const Tensor& value : values) shapes_.push_back(value.shape());
  steps_ = steps;
}

bool Optimizer::keeps(std::string_view state) const {
  return std::ranges::any_of(
      std::array{WeightKind::kOther, WeightKind::kMatrix}, [&](WeightKind kind) {
        return std::ranges::count(rule_->states(kind), state, &StateSpec::name) > 0;
      });
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
  std::vector<Tensor> directions(updates.size());
  std::vector<NumberedUpdate> together;
  for (std::size_t i = 0; i < updates.size(); ++i) {
    const std::span<const Tensor> states = store_->borrow(i);
    if (!rule_->needs_whole(kind_of(i))) {
      together.push_back({.number = i, .update = updates[i], .states = states});
    } else if (whole_) {
      directions[i] = rule_->direction(i, updates[i], states, constants);
    } else {
      const Tensor matrix = rule_->direction(i, updates[i], states, constants);
      rule_->transform(matrix);
      step_along(i, updates[i], matrix, constants);
    }
    if (!store_->lends_all()) apply(together, constants);
    store_->give_back(i);
  }
  apply(together, constants);
  if (whole_) step_as_whole(updates, directions, constants);
  store_->end_step();
}
// [/region]

void Optimizer::apply(std::vector<NumberedUpdate>& updates, const StepConstants& constants) const {
  if (!updates.empty()) rule_->apply_all(updates, constants);
  updates.clear();
}

void Optimizer::step_as_whole(std::span<const TensorUpdate> updates,
                              std::span<const Tensor> directions, const StepConstants& constants) {
  whole_->transform(directions, [this](const Tensor& matrix) { rule_->transform(matrix); });
  const bool borrows = store_->lends_weights();
  if (borrows)
    store_->end_step();  // and once more over all tensors, which come again with their weights
  for (std::size_t i = 0; i < updates.size(); ++i) {
    if (borrows) static_cast<void>(store_->borrow(i));
    if (directions[i].defined()) step_along(i, updates[i], directions[i], constants);
    if (borrows) store_->give_back(i);
  }
}

void Optimizer::step_along(std::size_t i, const TensorUpdate& update, const Tensor& direction,
                           const StepConstants& constants) const {
  TensorUpdate along = update;
  along.grad = direction;
  rule_->step_along(i, along, constants);
}

}  // namespace ultra::optim

#pragma once
/// @file
/// Optimizer: steps over a list of tensors by a rule.

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "common/optim/state_store.hpp"
#include "common/optim/update_rule.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::optim {

/// @brief Steps over a list of tensors: a rule says how each changes, a store keeps the states.
///
/// Memory: the rule's states of each element, allocated by the first step.
class Optimizer {
 public:
  /// @brief An optimizer that has made no step.
  explicit Optimizer(Rule rule, std::unique_ptr<StateStore> store = states_on_device());

  /// @brief A factor on the gradients of all steps to come, until it is set again: what takes a loss
  /// scale out of them.
  void set_gradient_factor(double factor) { gradient_factor_ = factor; }

  /// @brief One step over all tensors; call with the same tensors in the same order each time.
  /// @param gradient_scale  factor on all gradients: the clipping coefficient.
  /// @throws ShapeError when the tensors are not those of the first step.
  void step(std::span<const TensorUpdate> updates, double learning_rate, double gradient_scale);

  /// @brief Steps made so far.
  [[nodiscard]] int steps() const { return steps_; }

  /// @brief Goes on from where an optimizer of an earlier run stood: its states are allocated and wait
  /// for their values, which the caller writes to store().
  /// @param steps   that it had made.
  /// @param values  the weights of all updates to come, in their order.
  /// @throws InternalError when this one has made steps itself.
  void resume(int steps, std::span<const Tensor> values);

  /// @brief The states, by number of the updates; empty before the first step.
  [[nodiscard]] StateStore& store() { return *store_; }
  /// @brief What a tensor's states are.
  [[nodiscard]] std::span<const StateSpec> specs() const { return rule_->states(); }

 private:
  void expect_same_tensors(std::span<const TensorUpdate> updates) const;

  Rule rule_;
  std::unique_ptr<StateStore> store_;
  double gradient_factor_ = 1.0;
  std::vector<Shape> shapes_;  // of the tensors whose states there are
  int steps_ = 0;
};

}  // namespace ultra::optim

#pragma once
/// @file
/// Optimizer: steps over a list of tensors by a rule.

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "common/optim/matrix_exchange.hpp"
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
  /// @param kinds  of the tensors, in the order of the updates; empty: all are WeightKind::kOther.
  /// @param whole  for rules that need whole matrices; null: each matrix is whole here.
  explicit Optimizer(Rule rule, std::unique_ptr<StateStore> store = states_on_device(),
                     std::vector<WeightKind> kinds = {},
                     std::unique_ptr<MatrixExchange> whole = nullptr);

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
  /// @brief What the states of tensor `i` are.
  [[nodiscard]] StateSpecs specs(std::size_t i) const { return rule_->states(kind_of(i)); }
  /// @brief Whether weights of any kind have a state of this name.
  [[nodiscard]] bool keeps(std::string_view state) const;

 private:
  [[nodiscard]] WeightKind kind_of(std::size_t i) const {
    return kinds_.empty() ? WeightKind::kOther : kinds_.at(i);
  }
  void apply(std::vector<NumberedUpdate>& updates, const StepConstants& constants) const;
  void step_along(std::size_t i, const TensorUpdate& update, const Tensor& direction,
                  const StepConstants& constants) const;
  void step_as_whole(std::span<const TensorUpdate> updates, std::span<const Tensor> directions,
                     const StepConstants& constants);
  void expect_same_tensors(std::span<const TensorUpdate> updates) const;

  Rule rule_;
  std::unique_ptr<StateStore> store_;
  std::vector<WeightKind> kinds_;
  std::unique_ptr<MatrixExchange> whole_;
  double gradient_factor_ = 1.0;
  std::vector<Shape> shapes_;  // of the tensors whose states there are
  int steps_ = 0;
};

}  // namespace ultra::optim

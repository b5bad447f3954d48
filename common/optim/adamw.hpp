#pragma once
/// @file
/// AdamW over a list of tensors.

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/ops/adamw.hpp"
#include "common/optim/moment_store.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::optim {

/// @brief Constants of AdamW that stay the same for a whole run.
struct AdamWConfig {
  double beta1 = 0.9;         ///< decay of the mean of the gradients
  double beta2 = 0.95;        ///< decay of the mean of their squares
  double epsilon = 1e-8;      ///< added to the root of the second moment
  double weight_decay = 0.1;  ///< decoupled decay of tensors of two or more dimensions
};

/// @brief A weight and its gradient; either may be one rank's shard.
struct TensorUpdate {
  Tensor value;  ///< weights, updated in place
  Tensor grad;   ///< gradient of the same shape
  bool decay;    ///< whether weight decay applies; norm weights are left alone
  /// The same weights in a wider type, which the optimizer keeps; undefined where it keeps none.
  Tensor master = {};
};

/// @brief The update of one tensor; ops::adamw_into, or another implementation of it.
using AdamWUpdate =
    std::function<void(const Tensor& value, const Tensor& grad, const Tensor& first_moment,
                       const Tensor& second_moment, const ops::AdamWStep& constants)>;

/// Changes the weights of an update by its gradient and moments.
/// @param i  its number in the list of updates.
using WeightStep = std::function<void(std::size_t i, const TensorUpdate& update,
                                      const Moments& moments, const ops::AdamWStep& constants)>;

/// @brief AdamW with two moments per weight.
///
/// Memory: 2 n elements, allocated by the first step (moments_on_device() as
/// MemoryCategory::kOptimizer).
class AdamW {
 public:
  /// @brief An optimizer that has made no step.
  /// @param moments  where its moments live.
  explicit AdamW(const AdamWConfig& config, AdamWUpdate update = ops::adamw_into,
                 std::unique_ptr<MomentStore> moments = moments_on_device());

  /// @brief Lets another function change the weights: one that knows what becomes of master weights,
  /// and of weights in fewer bits than the update is computed in.
  void change_weights_by(WeightStep step) { weight_step_ = std::move(step); }

  /// @brief A factor on the gradients of all steps to come, until it is set again: what takes a loss
  /// scale out of them.
  void set_gradient_factor(double factor) { gradient_factor_ = factor; }

  /// @brief One step over all tensors; call with the same tensors in the same order each time.
  /// @param gradient_scale  factor on all gradients: the clipping coefficient.
  /// @throws ShapeError when the tensors are not those of the first step.
  void step(std::span<const TensorUpdate> updates, double learning_rate, double gradient_scale);

  /// @brief Steps made so far.
  [[nodiscard]] int steps() const { return steps_; }

  /// @brief Goes on from where an optimizer of an earlier run stood: its moments are allocated and
  /// wait for their values, which the caller writes to moments().
  /// @param steps   that it had made.
  /// @param values  the weights of all updates to come, in their order.
  /// @throws InternalError when this one has made steps itself.
  void resume(int steps, std::span<const Tensor> values);

  /// @brief The moments, in the order of the updates; empty before the first step.
  [[nodiscard]] MomentStore& moments() { return *moments_; }

 private:
  void expect_same_tensors(std::span<const TensorUpdate> updates) const;

  AdamWConfig config_;
  WeightStep weight_step_;
  double gradient_factor_ = 1.0;
  std::unique_ptr<MomentStore> moments_;
  std::vector<Shape> shapes_;  // of the tensors whose moments there are
  int steps_ = 0;
};

}  // namespace ultra::optim

#pragma once
/// @file
/// AdamW over a list of tensors.

#include <functional>
#include <span>
#include <vector>

#include "common/ops/adamw.hpp"
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
};

/// @brief The update of one tensor; ops::adamw_into, or another implementation of it.
using AdamWUpdate =
    std::function<void(const Tensor& value, const Tensor& grad, const Tensor& first_moment,
                       const Tensor& second_moment, const ops::AdamWStep& constants)>;

/// @brief AdamW with two moments per weight.
///
/// Memory: 2 n elements, allocated (as MemoryCategory::kOptimizer) by the first step.
class AdamW {
 public:
  /// @brief An optimizer that has made no step.
  explicit AdamW(const AdamWConfig& config, AdamWUpdate update = ops::adamw_into);

  /// @brief One step over all tensors; call with the same tensors in the same order each time.
  /// @param gradient_scale  factor on all gradients: the clipping coefficient.
  /// @throws ShapeError when the tensors are not those of the first step.
  void step(std::span<const TensorUpdate> updates, double learning_rate, double gradient_scale);

  /// @brief Steps made so far.
  [[nodiscard]] int steps() const { return steps_; }

 private:
  struct Moments {
    Tensor first;
    Tensor second;
  };
  void allocate(std::span<const TensorUpdate> updates);

  AdamWConfig config_;
  AdamWUpdate update_;
  std::vector<Moments> moments_;
  int steps_ = 0;
};

}  // namespace ultra::optim

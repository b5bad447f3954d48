#pragma once
/// @file
/// The AdamW update of one tensor or many.

#include <span>

#include "common/tensor/tensor.hpp"

namespace ultra::ops {

/// @brief Constants of one AdamW step.
struct AdamWStep {
  double learning_rate = 1e-3;  ///< step size
  double beta1 = 0.9;           ///< decay of the mean of the gradients
  double beta2 = 0.95;          ///< decay of the mean of their squares
  double epsilon = 1e-8;        ///< added to the root of the second moment
  double weight_decay = 0.1;    ///< decoupled weight decay, per unit of learning rate
  double gradient_scale = 1.0;  ///< factor on the gradient: the clipping coefficient
  int step = 1;                 ///< 1 for the first step: the bias correction's exponent
};

/// @brief One of the tensors of a step.
struct AdamWTensors {
  Tensor value;          ///< [n] weights, updated
  Tensor grad;           ///< [n] gradient, read
  Tensor first_moment;   ///< [n] mean of gradients, updated
  Tensor second_moment;  ///< [n] mean of squared gradients, updated
  bool decays = true;    ///< whether the step's weight decay applies
  Tensor rounded = {};   ///< [n] written: the new weights in another type; undefined: nothing is
};

/// @brief One AdamW update of many tensors of one device, in place, in a single pass: on a device with
/// streams one kernel takes many tensors, and an element's bits do not depend on the others.
///
/// Types are those of the update of one tensor, and so are errors.
void adamw_into(std::span<const AdamWTensors> tensors, const AdamWStep& constants);

/// @brief One AdamW update in place, in a single pass.
/// @param value          [n] weights, updated.
/// @param grad           [n] gradient, read.
/// @param first_moment   [n] mean of gradients, updated.
/// @param second_moment  [n] mean of squared gradients, updated.
///
/// Each tensor may be f32, bf16 or f16: all is computed in f32 and rounded once (to the nearest).
/// An f64 value has f64 gradients and moments.
/// @throws ShapeError when shapes differ, or the types do not go together.
/// Source: Loshchilov & Hutter 2019, "Decoupled weight decay regularization", arXiv 1711.05101,
/// alg. 2.
void adamw_into(const Tensor& value, const Tensor& grad, const Tensor& first_moment,
                const Tensor& second_moment, const AdamWStep& constants);

}  // namespace ultra::ops

#pragma once
/// @file
/// AdamW of many tensors at once.

#include "kernels/generic/numbers.hpp"

namespace ultra::kernels::generic {

/// @brief One of the tensors of an AdamW step: [count] each, contiguous. f64 operands go with f64 ones
/// alone, and those of f32, bf16 and f16 may be mixed.
struct AdamWTensor {
  /// @brief The weights, updated.
  Target value;
  /// @brief Their gradient.
  Source grad;
  /// @brief The mean of the gradients, updated.
  Target first_moment;
  /// @brief The mean of their squares, updated.
  Target second_moment;
  /// @brief Written: the new weights in another type; no data: nothing is.
  Target rounded;
  /// @brief Elements.
  std::size_t count;
  /// @brief Whether the step's weight decay applies.
  bool decays;
};

/// @brief What the tensors of a step have in common.
struct AdamWStep {
  /// @brief Step size.
  double learning_rate;
  /// @brief Decay of the first moment.
  double beta1;
  /// @brief Decay of the second moment.
  double beta2;
  /// @brief Added to the root of the second moment.
  double epsilon;
  /// @brief Decoupled decay, per unit of learning rate.
  double weight_decay;
  /// @brief Factor on the gradients.
  double gradient_scale;
  /// @brief 1 for the first step: the exponent of the bias corrections.
  int step;
};

/// @brief Tensors of a launch: so many does a launch carry in 4 KiB of arguments.
inline constexpr int kTensorsOfLaunch = 62;

/// @brief One AdamW update of `count` tensors, kTensorsOfLaunch in a launch. An element's bits depend on
/// nothing but its own numbers: not on where a tensor begins, nor on which others there are.
/// Source: Loshchilov & Hutter 2019, arXiv 1711.05101, alg. 2; many tensors in a launch: Apex's
/// multi_tensor_apply.
template <simt::Executor executor>
void adamw(const AdamWTensor* tensors, std::size_t count, const AdamWStep& step,
           const simt::Queue& queue);

}  // namespace ultra::kernels::generic

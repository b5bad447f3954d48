#pragma once
/// @file
/// The ladder of AdamW updates. Per parameter there are 16 bytes to read (parameter, gradient and
/// two moments in fp32), 12 to write, and few operations: what counts is how often memory is gone
/// through, and how often a kernel is launched.
///
/// Source: Loshchilov & Hutter 2019, "Decoupled weight decay regularization", arXiv 1711.05101,
/// alg. 2.

#include "kernels/simt/config.hpp"
#include "kernels/simt/executor.hpp"

/// @brief AdamW updates of a model's tensors.
namespace ultra::kernels::adamw {

/// @brief One tensor of the model and its optimizer state, each contiguous and aligned to 16 bytes.
struct Tensor {
  /// @brief [n] parameters, updated.
  float* value;
  /// @brief [n] gradient.
  const float* gradient;
  /// @brief [n] mean of gradients, updated.
  float* first_moment;
  /// @brief [n] mean of squared gradients, updated.
  float* second_moment;
  /// @brief Elements.
  int n;
};

/// @brief What is the same for all parameters of a step; t is the step's number, from 1.
struct Constants {
  /// @brief Decay of the first moment.
  float beta1;
  /// @brief 1 - beta1.
  float keep1;
  /// @brief Decay of the second moment.
  float beta2;
  /// @brief 1 - beta2.
  float keep2;
  /// @brief Factor on gradients: the clipping coefficient.
  float gradient_scale;
  /// @brief Factor on parameters: 1 - learning rate x weight decay.
  float decay;
  /// @brief Learning rate / (1 - beta1^t): with the first moment's bias correction.
  float step_size;
  /// @brief 1 / sqrt(1 - beta2^t): the second moment's bias correction.
  float root_scale;
  /// @brief Added to the root of the second moment.
  float epsilon;
};

/// @brief One step of all tensors, in place: g = gradient_scale gradient, m = beta1 m + keep1 g,
/// v = beta2 v + keep2 g^2, value = decay value - step_size m / (root_scale sqrt(v) + epsilon).
struct Problem {
  /// @brief How many tensors.
  int count;
  /// @brief [count], in the host's memory.
  const Tensor* tensors;
  /// @brief The step's constants.
  Constants constants;
  /// @brief [elements of the largest tensor] scratch; holds nothing before.
  float* scratch;
};

/// @brief Rung 1: one small kernel per operation, as a tensor library does it.
template <simt::Executor executor>
void unfused(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 2: one kernel per tensor, every array read once and written once.
template <simt::Executor executor>
void fused(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 3: 16 bytes per lane and access.
template <simt::Executor executor>
void vectorised(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 4: one launch for many tensors.
template <simt::Executor executor>
void multi_tensor(const Problem& problem, const simt::Queue& queue);

}  // namespace ultra::kernels::adamw

#pragma once
/// @file
/// Operations that work element by element. All operands are contiguous; f64 operands go with f64
/// ones alone, and those of f32, bf16 and f16 may be mixed.

#include "kernels/generic/numbers.hpp"

namespace ultra::kernels::generic {

/// @brief out = left + right; out may be either.
template <simt::Executor executor>
void add(const Target& out, const Source& left, const Source& right, std::size_t count,
         const simt::Queue& queue);

/// @brief x *= factor.
template <simt::Executor executor>
void scale(const Target& x, double factor, std::size_t count, const simt::Queue& queue);

/// @brief product = silu(gate) up, with silu(x) = x / (1 + exp(-x)).
template <simt::Executor executor>
void swiglu(const Target& product, const Source& gate, const Source& up, std::size_t count,
            const simt::Queue& queue);

/// @brief Operands of swiglu's gradients, [count] each.
struct SwigluBackward {
  /// @brief The gate's gradient, written.
  Target d_gate;
  /// @brief The other factor's gradient, written.
  Target d_up;
  /// @brief The product's gradient.
  Source d_product;
  /// @brief The gate.
  Source gate;
  /// @brief The other factor.
  Source up;
};

/// @brief Both gradients of swiglu.
template <simt::Executor executor>
void swiglu_backward(const SwigluBackward& operands, std::size_t count, const simt::Queue& queue);

/// @brief Operands of an AdamW update, [count] each, and its constants.
struct AdamW {
  /// @brief The weights, updated.
  Target value;
  /// @brief Their gradient.
  Source grad;
  /// @brief The mean of the gradients, updated.
  Target first_moment;
  /// @brief The mean of their squares, updated.
  Target second_moment;
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
  /// @brief Factor on the gradient.
  double gradient_scale;
  /// @brief 1 for the first step: the exponent of the bias corrections.
  int step;
};

/// @brief One AdamW update. Source: Loshchilov & Hutter 2019, arXiv 1711.05101, alg. 2.
template <simt::Executor executor>
void adamw(const AdamW& operands, std::size_t count, const simt::Queue& queue);

}  // namespace ultra::kernels::generic

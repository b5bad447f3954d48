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

}  // namespace ultra::kernels::generic

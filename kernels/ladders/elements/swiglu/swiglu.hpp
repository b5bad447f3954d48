#pragma once
/// @file
/// The ladder of SwiGLU's activation: silu(gate) up, element by element, silu(x) = x / (1 +
/// exp(-x)). Source: Shazeer 2020, "GLU variants improve transformer", arXiv 2002.05202, eq. 6.

#include "kernels/simt/config.hpp"
#include "kernels/simt/executor.hpp"

/// @brief SwiGLU's activation.
namespace ultra::kernels::swiglu {

/// @brief product = silu(gate) up; all matrices are contiguous.
struct Problem {
  /// @brief Tokens.
  int tokens;
  /// @brief Elements of a row.
  int ffn;
  /// @brief [tokens, ffn].
  const float* gate;
  /// @brief [tokens, ffn].
  const float* up;
  /// @brief [tokens, ffn], written.
  float* product;
  /// @brief [tokens, ffn], rung 1's silu(gate) between its kernels.
  float* activated;
};

/// @brief Rung 1: a kernel for silu, another one for the product.
template <simt::Executor executor>
void two_kernels(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 2: one kernel.
template <simt::Executor executor>
void fused(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 3: the same with accesses of 16 bytes.
template <simt::Executor executor>
void vectorised(const Problem& problem, const simt::Queue& queue);

}  // namespace ultra::kernels::swiglu

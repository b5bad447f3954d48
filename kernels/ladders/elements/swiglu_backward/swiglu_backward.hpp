#pragma once
/// @file
/// The ladder of SwiGLU's gradients: with s = 1 / (1 + exp(-gate)),
/// d_up = d_product gate s, and d_gate = d_product up s (1 + gate (1 - s)).
///
/// gate and up are the only activations kept for it: s is computed again, because an exponential
/// costs nothing in a kernel that waits for memory, and a stored s would be 4 bytes more per
/// element, in the traffic and in the memory of the activations.

#include "kernels/simt/config.hpp"
#include "kernels/simt/executor.hpp"
#include "kernels/simt/small_floats.cuh"

/// @brief Gradients of SwiGLU's activation.
namespace ultra::kernels::swiglu_backward {

/// @brief Gradients of silu(gate) up; all matrices are contiguous.
/// @tparam T  float, or what training keeps: bf16.
template <typename T>
struct ProblemOf {
  /// @brief Tokens.
  int tokens;
  /// @brief Elements of a row.
  int ffn;
  /// @brief [tokens, ffn], gradient of the product.
  const T* d_product;
  /// @brief [tokens, ffn], from the forward pass.
  const T* gate;
  /// @brief [tokens, ffn], from the forward pass.
  const T* up;
  /// @brief [tokens, ffn], written.
  T* d_gate;
  /// @brief [tokens, ffn], written.
  T* d_up;
};

/// @brief What the rungs compute.
using Problem = ProblemOf<float>;

/// @brief Rung 1: a kernel for each gradient.
template <simt::Executor executor>
void two_kernels(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 2: one kernel for both.
template <simt::Executor executor>
void fused(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 3: the same with accesses of 16 bytes.
template <simt::Executor executor>
void vectorised(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 3 with bf16 in memory, eight elements an access, and fp32 in registers.
template <simt::Executor executor>
void vectorised_bf16(const ProblemOf<simt::bf16>& problem, const simt::Queue& queue);

}  // namespace ultra::kernels::swiglu_backward

#pragma once
/// @file
/// The ladder of SwiGLU's activation as training runs it: silu(gate) up in bf16, computed in fp32
/// and rounded once. Half the bytes of the ladder swiglu, and with them the requests: a kernel whose
/// lanes take an element each asks for 64 bytes a warp.

#include "kernels/simt/config.hpp"
#include "kernels/simt/executor.hpp"
#include "kernels/simt/small_floats.cuh"

/// @brief SwiGLU's activation in bf16.
namespace ultra::kernels::swiglu_bf16 {

/// @brief product = silu(gate) up; all matrices are contiguous.
struct Problem {
  /// @brief Tokens.
  int tokens;
  /// @brief Elements of a row.
  int ffn;
  /// @brief [tokens, ffn].
  const simt::bf16* gate;
  /// @brief [tokens, ffn].
  const simt::bf16* up;
  /// @brief [tokens, ffn], written.
  simt::bf16* product;
};

/// @brief Rung 1: an element per thread.
template <simt::Executor executor>
void element_each(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 2: eight elements per thread, 16 bytes.
template <simt::Executor executor>
void vectorised(const Problem& problem, const simt::Queue& queue);

}  // namespace ultra::kernels::swiglu_bf16

#pragma once
/// @file
/// The ladder of products whose factors lie the other way round, as a backward pass has them. A linear
/// layer stores x [tokens, in] and its weight [out, in]; y = x transpose(weight) runs along the
/// contiguous elements of both. Its gradients do not: d_x = d_y weight runs along the weight's rows, and
/// d_weight = transpose(d_y) x along the rows of both. Nothing is transposed in memory: factors turn on
/// their way from shared memory. Gradients of weights are summed up in fp32, over micro-batches too.

#include "kernels/ladders/matmul/matmul_bf16/matmul_bf16.hpp"

/// @brief Matrix products in bf16 whose factors lie either way.
namespace ultra::kernels::matmul_turned {

using matmul_bf16::Lies;

/// @brief c = a transpose(b) for a [rows, depth] and b [columns, depth], each of which lies either way.
/// Matrices are row-major and contiguous; columns, and the length of the factors' rows, are multiples
/// of 8.
struct Problem {
  /// @brief Rows of c.
  int rows;
  /// @brief Columns of c.
  int columns;
  /// @brief Products in a sum.
  int depth;
  /// @brief [rows, depth], or [depth, rows].
  const simt::bf16* a;
  /// @brief How a lies.
  Lies a_lies;
  /// @brief [columns, depth], or [depth, columns].
  const simt::bf16* b;
  /// @brief How b lies.
  Lies b_lies;
  /// @brief [rows, columns], written; null where the result is `sums`.
  simt::bf16* c;
  /// @brief [rows, columns] in fp32: the result where c is null.
  float* sums;
  /// @brief Whether the result is added to sums.
  bool adds;
};

/// @brief Whether there is a kernel for the way that the factors lie: b alone, or both along rows.
[[nodiscard]] constexpr bool has_kernel(Lies a, Lies b) {
  return b == Lies::kAlongRows || a == Lies::kAlongDepth;
}

/// @brief Rung 1: ldmatrix turns 8 x 8 elements at a time, on any GPU since the A100.
template <simt::Executor executor>
void ldmatrix_turns(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 2: wgmma reads them as they lie, in the clusters of matmul_bf16's last rung.
template <simt::Executor executor>
void wgmma_turns(const Problem& problem, const simt::Queue& queue);

}  // namespace ultra::kernels::matmul_turned

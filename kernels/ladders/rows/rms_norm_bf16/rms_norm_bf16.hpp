#pragma once
/// @file
/// The ladder of the residual addition and the RMSNorm after it, as training runs them: bf16 in
/// memory, fp32 in registers. h = x + residual is rounded, and y is the norm of the rounded h: the
/// backward pass will read h, and must see what the norm has seen. Source of the formula: Zhang &
/// Sennrich 2019, "Root mean square layer normalization", eq. 4.

#include "kernels/simt/config.hpp"
#include "kernels/simt/executor.hpp"
#include "kernels/simt/small_floats.cuh"

/// @brief Residual addition and RMSNorm in bf16.
namespace ultra::kernels::rms_norm_bf16 {

/// @brief h = x + residual and its RMSNorm; all matrices are row-major and contiguous.
struct Problem {
  /// @brief Rows: tokens.
  int rows;
  /// @brief Elements of a row.
  int hidden;
  /// @brief Added to the mean of the squares.
  float epsilon;
  /// @brief [rows, hidden], what the layer before computed.
  const simt::bf16* x;
  /// @brief [rows, hidden], what it is added to; null for rung 2: nothing, and h is not written.
  const simt::bf16* residual;
  /// @brief [hidden].
  const simt::bf16* weight;
  /// @brief [rows, hidden], written: the sum.
  simt::bf16* h;
  /// @brief [rows, hidden], written: the sum normalised and scaled.
  simt::bf16* y;
  /// @brief [rows], written: 1 / sqrt(mean(h^2) + epsilon), for the backward pass.
  float* reciprocal_rms;
};

/// @brief Elements of a row that one thread of rung 2 holds in registers.
inline constexpr int kElementsPerThread = 16;
/// @brief The longest row of rung 2, which holds it in the registers of a block.
inline constexpr int kLongestRow = kElementsPerThread * static_cast<int>(simt::kMostThreads);

/// @brief Rung 1: a warp per row, an element per lane and access; h is read back.
template <simt::Executor executor>
void warp_per_row(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 2: a block holds its row in registers; accesses of 16 bytes.
template <simt::Executor executor>
void in_registers(const Problem& problem, const simt::Queue& queue);

}  // namespace ultra::kernels::rms_norm_bf16

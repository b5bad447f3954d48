#pragma once
/// @file
/// The ladder of a transformer's residual addition and the RMSNorm after it: h = x + residual,
/// y = h weight / sqrt(mean(h^2) + epsilon), row by row.
///
/// The arithmetic is nothing next to the bytes: two arrays read and two written are the least, and
/// each rung comes closer to them. Source of the formula: Zhang & Sennrich 2019, "Root mean square
/// layer normalization", eq. 4; of the fusion: Liger-Kernel's fused_add_rms_norm.

#include "kernels/simt/config.hpp"
#include "kernels/simt/executor.hpp"

/// @brief Residual addition and RMSNorm.
namespace ultra::kernels::rms_norm {

/// @brief h = x + residual and its RMSNorm; all matrices are row-major and contiguous.
struct Problem {
  /// @brief Rows: tokens.
  int rows;
  /// @brief Elements of a row.
  int hidden;
  /// @brief Added to the mean of the squares.
  float epsilon;
  /// @brief [rows, hidden], what the layer before computed.
  const float* x;
  /// @brief [rows, hidden], what it is added to; null for rung 4: nothing, and h is not written.
  const float* residual;
  /// @brief [hidden].
  const float* weight;
  /// @brief [rows, hidden], written: the sum.
  float* h;
  /// @brief [rows, hidden], written: the sum normalised and scaled.
  float* y;
  /// @brief [rows], written: 1 / sqrt(mean(h^2) + epsilon), for the backward pass.
  float* reciprocal_rms;
};

/// @brief Floats of a row that one thread of rungs 4 and 5 holds in registers.
inline constexpr int kFloatsPerThread = 16;
/// @brief The longest row of rungs 4 and 5, which hold it in the registers of a block.
inline constexpr int kLongestRow = kFloatsPerThread * static_cast<int>(simt::kMostThreads);

/// @brief Rung 1: an addition kernel; then one thread per row.
template <simt::Executor executor>
void thread_per_row(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 2: one warp per row, whose lanes read neighbours and sum by shuffles.
template <simt::Executor executor>
void warp_per_row(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 3: the same with accesses of 16 bytes.
template <simt::Executor executor>
void vectorised(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 4: a block per row, which holds the row in registers: h is read once.
template <simt::Executor executor>
void in_registers(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 5: the addition in the same kernel: h is not read at all. Exercise 09.6.
template <simt::Executor executor>
void fused(const Problem& problem, const simt::Queue& queue);

}  // namespace ultra::kernels::rms_norm

#pragma once
/// @file
/// The ladder of RMSNorm's gradients. With r the reciprocal RMS of a row of x:
/// d_x = r (weight d_y - x r^2 mean(weight d_y x)), and d_weight = sum over rows of d_y x r.
///
/// d_x is a sum along each row, like the forward pass; d_weight a sum along each column, over all
/// rows: the two directions are what makes it hard.

#include "kernels/simt/config.hpp"
#include "kernels/simt/executor.hpp"
#include "kernels/simt/small_floats.cuh"

/// @brief Gradients of RMSNorm.
namespace ultra::kernels::rms_norm_backward {

/// @brief Gradients of y = x weight r, r = 1 / sqrt(mean(x^2) + epsilon); all matrices are
/// row-major and contiguous. Sums, and the gradient of the weight, are float's.
/// @tparam T  float, or what training keeps: bf16.
template <typename T>
struct ProblemOf {
  /// @brief Rows: tokens.
  int rows;
  /// @brief Elements of a row.
  int hidden;
  /// @brief [rows, hidden], gradient of the output.
  const T* d_y;
  /// @brief [rows, hidden], the input of the forward pass.
  const T* x;
  /// @brief [hidden].
  const T* weight;
  /// @brief [rows], from the forward pass.
  const float* reciprocal_rms;
  /// @brief [rows, hidden], written.
  T* d_x;
  /// @brief [hidden], written.
  float* d_weight;
  /// @brief [partials_of(rows), hidden]: rung 3's sums of d_weight over some of the rows.
  float* partial_d_weight;
};

/// @brief What the rungs compute.
using Problem = ProblemOf<float>;

/// @brief Elements of a row that one thread of rung 3 works on.
inline constexpr int kElementsPerThread = 8;
/// @brief The longest row of rung 3.
inline constexpr int kLongestRow = kElementsPerThread * static_cast<int>(simt::kMostThreads);

/// @brief Blocks of rung 3's first kernel, each of which leaves one row of partial sums: two for
/// each of an H100's 132 multiprocessors. A constant: the order of the additions, and so the
/// result's last bits, do not depend on the GPU.
constexpr int partials_of(int rows) { return rows < 264 ? rows : 264; }

/// @brief Rung 1: one thread per row, which adds to d_weight by atomics.
template <simt::Executor executor>
void thread_per_row(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 2: one warp per row; its atomics go to neighbours.
template <simt::Executor executor>
void warp_per_row(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 3: a block goes over many rows, reads each once, and keeps its part of d_weight in
/// registers; a second kernel adds the parts. No atomics: the same bits in every run.
template <simt::Executor executor>
void two_stages(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 3 with bf16 in memory and fp32 in registers, as training runs it.
template <simt::Executor executor>
void two_stages_bf16(const ProblemOf<simt::bf16>& problem, const simt::Queue& queue);

}  // namespace ultra::kernels::rms_norm_backward

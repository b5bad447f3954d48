#pragma once
/// @file
/// The ladder of quantization to fp8 with block scales: each group of 128 neighbours of a row
/// shares a scale, chosen so that the largest of them becomes 448, the largest number of e4m3. One
/// outlier then spoils 128 numbers, not a whole tensor. Source: DeepSeek-AI 2024, "DeepSeek-V3
/// technical report", arXiv 2412.19437, section 3.3.2 (tiles of 1 x 128 for activations).

#include "kernels/simt/config.hpp"
#include "kernels/simt/executor.hpp"
#include "kernels/simt/small_floats.cuh"

/// @brief bf16 to fp8 with a scale for each 128 elements.
namespace ultra::kernels::quantize_fp8 {

/// @brief Elements that share a scale.
inline constexpr int kGroup = 128;
/// @brief The largest number of e4m3.
inline constexpr float kLargest = 448.0F;

/// @brief x is about quantized x scale of its group; matrices are row-major and contiguous; columns
/// is a multiple of kGroup.
struct Problem {
  /// @brief Rows.
  int rows;
  /// @brief Elements of a row.
  int columns;
  /// @brief [rows, columns].
  const simt::bf16* x;
  /// @brief [rows, columns], written.
  simt::fp8_e4m3* quantized;
  /// @brief [rows, columns / kGroup], written: largest magnitude of the group / 448; 1 where all
  /// are 0.
  float* scales;
};

/// @brief Rung 1: a kernel for the scales, a thread per group; another one for the elements.
template <simt::Executor executor>
void two_kernels(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 2: a warp per group, in one kernel.
template <simt::Executor executor>
void warp_per_group(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 3: 16 lanes per group, 16 bytes a lane.
template <simt::Executor executor>
void vectorised(const Problem& problem, const simt::Queue& queue);

}  // namespace ultra::kernels::quantize_fp8

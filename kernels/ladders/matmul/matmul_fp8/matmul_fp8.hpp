#pragma once
/// @file
/// The ladder of matrix products in fp8 with block scales: what quantize_fp8 makes of activations,
/// times weights that have a scale for each 128 x 128 elements. Sums of 128 products are scaled and
/// added up in fp32 registers (promoted): tensor cores keep fewer bits of sums of fp8.
/// Source: DeepSeek-AI 2024, "DeepSeek-V3 technical report", arXiv 2412.19437, section 3.3.2.

#include "kernels/simt/config.hpp"
#include "kernels/simt/executor.hpp"
#include "kernels/simt/small_floats.cuh"

/// @brief Matrix products in fp8 with block scales.
namespace ultra::kernels::matmul_fp8 {

/// @brief Elements along the depth that share a scale; and rows of b.
inline constexpr int kGroup = 128;

/// @brief c = a transpose(b), where a and b are their elements times their scales; matrices are
/// row-major and contiguous; depth is a multiple of kGroup.
struct Problem {
  /// @brief Rows of a and c.
  int rows;
  /// @brief Rows of b, columns of c.
  int columns;
  /// @brief Elements of a row of a and of b.
  int depth;
  /// @brief [rows, depth].
  const simt::fp8_e4m3* a;
  /// @brief [rows, depth / kGroup].
  const float* a_scales;
  /// @brief [columns, depth].
  const simt::fp8_e4m3* b;
  /// @brief [columns / kGroup, rounded up; depth / kGroup].
  const float* b_scales;
  /// @brief [rows, columns], written; null where the result is `sums`.
  simt::bf16* c;
  /// @brief [rows, columns] in fp32: rung 3's result where c is null.
  float* sums = nullptr;
  /// @brief Whether the result is added to sums.
  bool adds = false;
};

/// @brief Rung 1: elements become bf16 in registers, which is exact, and are multiplied as such.
template <simt::Executor executor>
void converted(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 2: tensor cores multiply fp8, for GPUs since compute capability 8.9.
template <simt::Executor executor>
void tensor_cores(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 3: Hopper's tensor cores multiply fp8, as wgmma; columns are even.
template <simt::Executor executor>
void wgmma(const Problem& problem, const simt::Queue& queue);

/// @brief The same where a's bytes are of e5m2, as gradients are.
template <simt::Executor executor>
void wgmma_of_gradients(const Problem& problem, const simt::Queue& queue);

}  // namespace ultra::kernels::matmul_fp8

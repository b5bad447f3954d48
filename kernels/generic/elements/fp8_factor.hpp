#pragma once
/// @file
/// Matrices whose numbers have no more bits than fp8 holds, as products of fp8 take them.

#include <cstddef>

#include "kernels/simt/config.hpp"
#include "kernels/simt/executor.hpp"
#include "kernels/simt/small_floats.cuh"

namespace ultra::kernels::generic {

/// @brief Neighbours along the depth that share a scale: matmul_fp8's group.
inline constexpr int kFp8Group = 128;

/// @brief A factor of a product, [rows, depth], of bf16. Each of its groups, where it is a left factor
/// that is not turned, or else of its squares of 128 x 128, is of fp8's numbers times one power of two.
struct Fp8Factor {
  /// @brief Rows of the factor.
  std::size_t rows;
  /// @brief Elements of a row.
  std::size_t depth;
  /// @brief [rows, depth], or [depth, rows], at a multiple of 8 bytes; rows that lie in memory have a
  /// multiple of 4 elements.
  const simt::bf16* x;
  /// @brief Whether x is [depth, rows].
  bool is_turned;
  /// @brief Whether each group of a row has a scale, not each square: a left factor. Those of a square's rows are
  /// equal where x is turned.
  bool is_left;
  /// @brief Whether the numbers are e5m2's, not e4m3's; only of a left factor.
  bool is_e5m2;
};

/// @brief Writes a factor's codes, and what they are multiplied by: the smallest power of two with which the
/// format reaches the largest magnitude, 1 for zeros. With it the numbers stay what they are.
/// @param codes   [rows, groups x kFp8Group] of simt::fp8_e4m3 or fp8_e5m2, zeros behind the depth.
/// @param scales  [rows, groups], or [rows / 128, rounded up; groups].
template <simt::Executor executor>
void pack_factor(const Fp8Factor& factor, void* codes, float* scales, const simt::Queue& queue);

}  // namespace ultra::kernels::generic

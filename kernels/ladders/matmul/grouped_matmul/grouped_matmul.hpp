#pragma once
/// @file
/// The ladder of grouped products, as a layer of experts has them: each expert multiplies the
/// tokens that the router gave it by its own weights. The numbers of tokens differ, change in every
/// step, and are known on the GPU only. Source: Gale et al. 2022, "MegaBlocks", arXiv 2211.15841,
/// section 3.

#include "kernels/simt/config.hpp"
#include "kernels/simt/executor.hpp"
#include "kernels/simt/small_floats.cuh"

/// @brief Products of many matrices of different heights in bf16.
namespace ultra::kernels::grouped_matmul {

/// @brief c_e = a_e transpose(b_e) for each expert e; its rows of a and c are begins[e] to begins[e
/// + 1]. All matrices are row-major and contiguous; depth is a multiple of 8.
struct Problem {
  /// @brief How many products.
  int experts;
  /// @brief Rows of a and c, of all experts together.
  int rows;
  /// @brief Columns of c, rows of each expert's b.
  int columns;
  /// @brief Columns of a and b.
  int depth;
  /// @brief [experts + 1], where each expert's rows begin; the last one is `rows`.
  const int* begins;
  /// @brief The same in the host's memory, for rung 1.
  const int* host_begins;
  /// @brief [rows, depth], tokens in the order of their experts.
  const simt::bf16* a;
  /// @brief [experts, columns, depth].
  const simt::bf16* b;
  /// @brief [rows, columns], written.
  simt::bf16* c;
};

/// @brief Rows and columns of the tile that a block computes.
inline constexpr int kTile = 128;

/// @brief Rung 1: a launch for each expert, whose height the host must know.
template <simt::Executor executor>
void launch_each(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 2: one launch; a block looks up which tile of which expert is its own.
template <simt::Executor executor>
void one_launch(const Problem& problem, const simt::Queue& queue);

}  // namespace ultra::kernels::grouped_matmul

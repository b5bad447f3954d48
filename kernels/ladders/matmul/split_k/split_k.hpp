#pragma once
/// @file
/// The ladder of products with few tiles and a long depth: gradients of weights, projections of a
/// few tokens. There are fewer tiles than multiprocessors, or a few more than a multiple of them:
/// the depth must be shared. Source: Osama et al. 2023, "Stream-K: work-centric parallel
/// decomposition for dense matrix-matrix multiplication on the GPU", arXiv 2301.03598.

#include "kernels/simt/config.hpp"
#include "kernels/simt/executor.hpp"
#include "kernels/simt/small_floats.cuh"

/// @brief Products whose depth is shared by blocks.
namespace ultra::kernels::split_k {

/// @brief c = a transpose(b) in bf16 with sums in fp32; all matrices are row-major and contiguous;
/// depth is a multiple of 8.
struct Problem {
  /// @brief Rows of a and c.
  int rows;
  /// @brief Rows of b, columns of c.
  int columns;
  /// @brief Columns of a and b.
  int depth;
  /// @brief How many blocks run at a time on the GPU that this is for.
  int blocks;
  /// @brief [rows, depth].
  const simt::bf16* a;
  /// @brief [columns, depth].
  const simt::bf16* b;
  /// @brief [rows, columns], written.
  simt::bf16* c;
  /// @brief [scratch_size(problem)] scratch: tiles of sums.
  float* scratch;
};

/// @brief Rows and columns of a tile.
inline constexpr int kTile = 128;
/// @brief Elements of the depth in a step.
inline constexpr int kStep = 64;

/// @brief How many tiles c has.
constexpr int count_tiles(int rows, int columns) {
  return ((rows + kTile - 1) / kTile) * ((columns + kTile - 1) / kTile);
}

/// @brief Into how many parts rung 2 cuts the depth: as many as give each block something to do,
/// and no part without a step.
constexpr int count_parts(int tiles, int steps, int blocks) {
  const int wanted = blocks / tiles > 1 ? blocks / tiles : 1;
  const int of_part = (steps + wanted - 1) / wanted;  // steps
  return (steps + of_part - 1) / of_part;
}

/// @brief Floats of Problem::scratch: a tile for each part of each tile, or two for each block.
constexpr std::size_t scratch_size(int rows, int columns, int depth, int blocks) {
  const int tiles = count_tiles(rows, columns);
  const int parts = count_parts(tiles, (depth + kStep - 1) / kStep, blocks);
  const int most = tiles * parts > 2 * blocks ? tiles * parts : 2 * blocks;
  return static_cast<std::size_t>(most) * kTile * kTile;
}

/// @brief Rung 1: a block for each tile.
template <simt::Executor executor>
void whole_depth(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 2: several blocks for each tile, which share its depth; then a kernel that adds up.
template <simt::Executor executor>
void split(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 3: all steps of all tiles dealt out evenly (stream-K).
template <simt::Executor executor>
void stream(const Problem& problem, const simt::Queue& queue);

}  // namespace ultra::kernels::split_k

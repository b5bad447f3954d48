#pragma once
/// @file
/// Which tile of which expert's product a block computes, and how: as rung 5 of matmul_bf16.

#include "kernels/ladders/matmul/grouped_matmul/grouped_matmul.hpp"
#include "kernels/ladders/matmul/matmul_bf16/block_tile.cuh"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::grouped_matmul {
namespace {

using namespace simt;
using namespace matmul_bf16::block_tile;

static_assert(kTile == matmul_bf16::block_tile::kTileSide);

/// @brief One expert's product.
struct Product {
  /// @brief [rows, depth].
  const bf16* a;
  /// @brief [columns, depth].
  const bf16* b;
  /// @brief [rows, columns], written.
  bf16* c;
  /// @brief Rows of a and c.
  int rows;
};

/// @brief The product of expert `expert`, whose rows are [begin, end).
__device__ __forceinline__ Product product_of(const Problem& problem, int expert, int begin,
                                              int end) {
  const std::size_t weights = static_cast<std::size_t>(problem.columns) * problem.depth;
  return {.a = problem.a + static_cast<std::size_t>(begin) * problem.depth,
          .b = problem.b + expert * weights,
          .c = problem.c + static_cast<std::size_t>(begin) * problem.columns,
          .rows = end - begin};
}

/// @brief Computes the tile of c at (row, column). The whole block calls it; `stages` is
/// kSharedBytes of shared memory.
__device__ __forceinline__ void compute_tile(uint4* stages, const Product& product, int row,
                                             int column, int columns, int depth) {
  WarpSums sums = {};
  multiply_tile(sums, stages, {product.a, row, product.rows}, {product.b, column, columns}, depth);
  matmul_bf16::store_sums(product.c, row + warp_row(), column + warp_column(), product.rows,
                          columns, sums);
}

/// @brief A tile of one of the experts.
struct ExpertTile {
  /// @brief The expert.
  int expert;
  /// @brief Its first row of all.
  int begin;
  /// @brief Behind its last row.
  int end;
  /// @brief Which of its rows of tiles.
  int row_tile;
};

/// @brief Row of tiles number `wanted` of all experts' rows of tiles, in the order of the experts;
/// its expert is `experts` where there are fewer. Every thread walks the same few numbers, which
/// are one word for the whole warp each.
__device__ __forceinline__ ExpertTile find_row_tile(const Problem& problem, int wanted) {
  int before = 0;
  int begin = ldg(&problem.begins[0]);
  for (int expert = 0; expert < problem.experts; ++expert) {
    const int end = ldg(&problem.begins[expert + 1]);
    const int tiles = (end - begin + kTile - 1) / kTile;
    if (wanted < before + tiles) {
      return {.expert = expert, .begin = begin, .end = end, .row_tile = wanted - before};
    }
    before += tiles;
    begin = end;
  }
  return {.expert = problem.experts, .begin = 0, .end = 0, .row_tile = 0};
}

/// @brief The most rows of tiles that there can be: each expert's last one may be as good as empty.
inline unsigned most_row_tiles(const Problem& problem) {
  return ceil_div(problem.rows, kTile) + static_cast<unsigned>(problem.experts);
}

}  // namespace
}  // namespace ultra::kernels::grouped_matmul

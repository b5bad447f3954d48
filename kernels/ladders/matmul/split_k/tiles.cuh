#pragma once
/// @file
/// Tiles of sums: multiplied, kept in memory, added up. For all rungs.

#include "kernels/ladders/matmul/matmul_bf16/block_tile.cuh"
#include "kernels/ladders/matmul/split_k/split_k.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::split_k {
namespace {

using namespace simt;
using namespace matmul_bf16::block_tile;
static_assert(kTile == kTileSide && kStep == BK);

/// @brief Where tile `tile` begins in c.
struct Corner {
  /// @brief Its first row.
  int row;
  /// @brief Its first column.
  int column;
};

__device__ __forceinline__ Corner corner_of(const Problem& problem, int tile) {
  const int column_tiles = (problem.columns + kTile - 1) / kTile;
  return {tile / column_tiles * kTile, tile % column_tiles * kTile};
}

/// @brief Multiplies some steps of a tile.
__device__ __forceinline__ void multiply(WarpSums& sums, const Problem& problem, int tile,
                                         int first_step, int last_step) {
  const Corner corner = corner_of(problem, tile);
  multiply_steps(sums, dynamic_shared<uint4>(), {problem.a, corner.row, problem.rows},
                 {problem.b, corner.column, problem.columns}, problem.depth, first_step, last_step);
}

/// @brief Rounds a tile's sums into c.
__device__ __forceinline__ void store_tile(const WarpSums& sums, const Problem& problem, int tile) {
  const Corner corner = corner_of(problem, tile);
  matmul_bf16::store_sums(problem.c, corner.row + warp_row(), corner.column + warp_column(),
                          problem.rows, problem.columns, sums);
}

/// @brief Keeps a tile's sums as number `slot` of the scratch memory. Each thread will read what it
/// has stored: the sums lie in the order of threads, neighbours next to each other.
__device__ __forceinline__ void keep_sums(const WarpSums& sums, const Problem& problem, int slot) {
  float* const own = problem.scratch + static_cast<std::size_t>(slot) * kTile * kTile + threadIdx.x;
#pragma unroll
  for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
    for (int j = 0; j < WN / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        stg(&own[((i * (WN / 8) + j) * 4 + e) * kThreads], sums[i][j][e]);
      }
    }
  }
}

/// @brief Adds what keep_sums() has kept.
__device__ __forceinline__ void add_kept(WarpSums& sums, const Problem& problem, int slot) {
  const float* const own =
      problem.scratch + static_cast<std::size_t>(slot) * kTile * kTile + threadIdx.x;
#pragma unroll
  for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
    for (int j = 0; j < WN / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        sums[i][j][e] += ldg(&own[((i * (WN / 8) + j) * 4 + e) * kThreads]);
      }
    }
  }
}

/// @brief The launch of a kernel that multiplies.
inline Config multiplying(const char* name, int blocks, const Queue& queue) {
  return {.name = name,
          .grid = {.x = static_cast<unsigned>(blocks)},
          .block = {.x = kThreads},
          .shared_bytes = kSharedBytes,
          .queue = queue};
}

}  // namespace
}  // namespace ultra::kernels::split_k

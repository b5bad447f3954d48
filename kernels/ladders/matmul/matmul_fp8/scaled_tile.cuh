#pragma once
/// @file
/// A block's tile of c, 128 x 128. 128 elements of fp8 are 128 bytes: rows of a tile in shared memory
/// are those of 64 bf16, and so are the copies and ldmatrix, which know bytes alone. A step along the
/// depth is a group of 128, which has one scale in each factor's row.

#include "kernels/ladders/matmul/matmul_bf16/block_tile.cuh"
#include "kernels/ladders/matmul/matmul_fp8/matmul_fp8.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::matmul_fp8 {
namespace {

using namespace simt;
using namespace matmul_bf16::block_tile;
using matmul_bf16::fetch_tile;
using matmul_bf16::kRowUnits;
using matmul_bf16::kSteps;
using matmul_bf16::load_left;
using matmul_bf16::load_right;

static_assert(kGroup == 2 * BK && kGroup == kTileSide);

// Fetches both factors' bytes of a group of the depth.
__device__ __forceinline__ void fetch_group(uint4* stage, const Problem& problem, int row,
                                            int column, int group) {
  const auto* const a = reinterpret_cast<const bf16*>(problem.a);
  const auto* const b = reinterpret_cast<const bf16*>(problem.b);
  fetch_tile<kTileSide, kThreads>(stage, a, row, problem.rows, group * BK, problem.depth / 2);
  fetch_tile<kTileSide, kThreads>(stage + kTileSide * kRowUnits, b, column, problem.columns,
                                  group * BK, problem.depth / 2);
}

// sums += group_sums x the scales of the group.
// [region promote]
__device__ __forceinline__ void promote(WarpSums& sums, const WarpSums& group_sums,
                                        const Problem& problem, int row, int column, int group) {
  const int groups = problem.depth / kGroup;
  const float of_b = ldg(&problem.b_scales[column / kGroup * groups + group]);
#pragma unroll
  for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int own = row + warp_row() + i * 16 + threadIdx.x % 32 / 4 + half * 8;
      const float of_a = own < problem.rows ? ldg(&problem.a_scales[own * groups + group]) : 0.0F;
#pragma unroll
      for (int j = 0; j < WN / 8; ++j) {
#pragma unroll
        for (int e = 2 * half; e < 2 * half + 2; ++e) {
          sums[i][j][e] += group_sums[i][j][e] * (of_a * of_b);
        }
      }
    }
  }
}
// [/region]

// What a lane has of 64 rows of a, and of 32 of b, at 32 places along the depth.
using Left = unsigned[WM / 16][4];
using Right = unsigned[WN / 8][2];

// Computes and stores the block's tile. `multiply(sums, left, right)` adds the products of these
// elements.
template <typename Multiply>
__device__ __forceinline__ void compute_tile(const Problem& problem, const Multiply& multiply) {
  uint4* const stages = dynamic_shared<uint4>();
  const int row = blockIdx.x * kTileSide;
  const int column = blockIdx.y * kTileSide;
  const int groups = problem.depth / kGroup;
  const auto fetch = [&](int group) {
    if (group < groups) {
      fetch_group(stages + group % kStages * kStageUnits, problem, row, column, group);
    }
    commit_copies();  // also an empty group: wait_copies() counts groups
  };
#pragma unroll
  for (int group = 0; group < kStages - 1; ++group) {
    fetch(group);
  }
  WarpSums sums = {};
  for (int group = 0; group < groups; ++group) {
    wait_copies<kStages - 2>();
    __syncthreads();  // this group's copies have landed for all; all have read the group before
    fetch(group + kStages - 1);
    const uint4* const left_tile = stages + group % kStages * kStageUnits;
    const uint4* const right_tile = left_tile + kTileSide * kRowUnits;
    WarpSums group_sums = {};
#pragma unroll
    for (int part = 0; part < kSteps; ++part) {
      Left left;
      Right right;
      load_left(left, left_tile, warp_row(), part);
      load_right(right, right_tile, warp_column(), part);
      multiply(group_sums, left, right);
    }
    promote(sums, group_sums, problem, row, column, group);
  }
  matmul_bf16::store_sums(problem.c, row + warp_row(), column + warp_column(), problem.rows,
                          problem.columns, sums);
}

inline Config launch_of(const Problem& problem, const Queue& queue, const char* name) {
  return {
      .name = name,
      .grid = {.x = ceil_div(problem.rows, kTileSide), .y = ceil_div(problem.columns, kTileSide)},
      .block = {.x = kThreads},
      .shared_bytes = kSharedBytes,
      .queue = queue};
}

}  // namespace
}  // namespace ultra::kernels::matmul_fp8

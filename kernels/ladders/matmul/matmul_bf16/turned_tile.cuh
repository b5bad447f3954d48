#pragma once
/// @file
/// block_tile.cuh for factors that lie the other way round. The forward pass multiplies along the
/// contiguous elements of both factors; a gradient's factors have the depth as their rows, and are
/// turned while they go from shared memory to registers: ldmatrix transposes on its way.

#include "kernels/ladders/matmul/matmul_bf16/block_tile.cuh"
#include "kernels/ladders/matmul/matmul_bf16/matmul_bf16.hpp"

namespace ultra::kernels::matmul_bf16::block_tile {
namespace {

constexpr int kHalf = BK * kRowUnits;  // units of 64 rows of a tile that lies along rows

/// @brief Begins to copy a factor's part of a step: 128 of its rows, 64 of the depth from k on.
template <Lies lies>
__device__ __forceinline__ void fetch_factor(uint4* tile, const Factor& factor, int k, int depth) {
  if constexpr (lies == Lies::kAlongDepth) {
    fetch_tile<kTileSide, kThreads>(tile, factor.elements, factor.first_row, factor.rows, k, depth);
  } else {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      fetch_tile<BK, kThreads>(tile + half * kHalf, factor.elements, k, depth,
                               factor.first_row + half * BK, factor.rows);
    }
  }
}

/// @brief load_left() of units.cuh for a tile that lies along rows.
template <int row_tiles>
__device__ __forceinline__ void load_left_turned(unsigned (&left)[row_tiles][4], const uint4* tile,
                                                 int row, int step) {
  const int lane = threadIdx.x % 32;
  const uint4* const half = tile + row / BK * kHalf;
#pragma unroll
  for (int i = 0; i < row_tiles; ++i) {
    const int unit = (row % BK + i * 16) / kUnit + lane / 8 % 2;
    load_matrix_x4_transposed(left[i], &half[swizzled(step * 16 + lane / 16 * 8 + lane % 8, unit)]);
  }
}

/// @brief load_right() of units.cuh for a tile that lies along rows.
template <int column_tiles>
__device__ __forceinline__ void load_right_turned(unsigned (&right)[column_tiles][2],
                                                  const uint4* tile, int row, int step) {
  const int lane = threadIdx.x % 32;
  const uint4* const half = tile + row / BK * kHalf;
#pragma unroll
  for (int j = 0; j < column_tiles; j += 2) {
    unsigned both[4];
    const int unit = (row % BK + j * 8) / kUnit + lane / 16;
    load_matrix_x4_transposed(both, &half[swizzled(step * 16 + lane % 16, unit)]);
    right[j][0] = both[0];
    right[j][1] = both[1];
    right[j + 1][0] = both[2];
    right[j + 1][1] = both[3];
  }
}

/// @brief Adds the product of two factors to the sums, over a depth that both share. The whole block
/// calls it.
template <Lies left_lies, Lies right_lies>
__device__ __forceinline__ void multiply_factors(WarpSums& sums, uint4* stages, const Factor& left,
                                                 const Factor& right, int depth) {
  const int steps = steps_of(depth);
  const auto fetch = [&](int step) {
    uint4* const stage = stages + step % kStages * kStageUnits;
    if (step < steps) {
      fetch_factor<left_lies>(stage, left, step * BK, depth);
      fetch_factor<right_lies>(stage + kTileSide * kRowUnits, right, step * BK, depth);
    }
    commit_copies();  // also an empty group: wait_copies() counts groups
  };
#pragma unroll
  for (int step = 0; step < kStages - 1; ++step) {
    fetch(step);
  }
  for (int step = 0; step < steps; ++step) {
    wait_copies<kStages - 2>();
    __syncthreads();  // this step's copies have landed for all; all have read the step before
    fetch(step + kStages - 1);
    const uint4* const left_tile = stages + step % kStages * kStageUnits;
    const uint4* const right_tile = left_tile + kTileSide * kRowUnits;
#pragma unroll
    for (int part = 0; part < kSteps; ++part) {
      unsigned left_part[WM / 16][4];
      unsigned right_part[WN / 8][2];
      if constexpr (left_lies == Lies::kAlongDepth) {
        load_left(left_part, left_tile, warp_row(), part);
      } else {
        load_left_turned(left_part, left_tile, warp_row(), part);
      }
      if constexpr (right_lies == Lies::kAlongDepth) {
        load_right(right_part, right_tile, warp_column(), part);
      } else {
        load_right_turned(right_part, right_tile, warp_column(), part);
      }
      multiply_step(sums, left_part, right_part);
    }
  }
}

}  // namespace
}  // namespace ultra::kernels::matmul_bf16::block_tile

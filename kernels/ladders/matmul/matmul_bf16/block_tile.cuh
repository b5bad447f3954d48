#pragma once
/// @file
/// A block's tile of a product as a function, for kernels that multiply among other things: rung 5
/// of matmul_bf16, copies in the background into a ring of three stages.

#include "kernels/ladders/matmul/matmul_bf16/fetch.cuh"

namespace ultra::kernels::matmul_bf16::block_tile {
namespace {

/// @brief Rows and columns of the tile.
constexpr int kTileSide = 128;
constexpr int BK = kRowUnits * kUnit;
constexpr int WM = 64;
constexpr int WN = 32;
/// @brief Threads of the block.
constexpr int kThreads = 256;
constexpr int kStages = 3;
constexpr int kStageUnits = 2 * kTileSide * kRowUnits;  // the left tile, then the right one
/// @brief What multiply_tile() needs of shared memory.
constexpr std::size_t kSharedBytes = sizeof(uint4) * kStageUnits * kStages;

/// @brief A warp's sums, 64 x 32 of the tile, as mma.sync leaves them: element e of [i][j] has row
/// 16 i + lane / 4 + 8 (e / 2) and column 8 j + 2 (lane % 4) + e % 2.
using WarpSums = float[WM / 16][WN / 8][4];

/// @brief The first row of this warp in the tile.
__device__ __forceinline__ int warp_row() { return threadIdx.x / 32 / (kTileSide / WN) * WM; }
/// @brief The first column of this warp in the tile.
__device__ __forceinline__ int warp_column() { return threadIdx.x / 32 % (kTileSide / WN) * WN; }

/// @brief A factor [rows, depth], and where the tile's rows begin in it.
struct Factor {
  /// @brief Its elements.
  const bf16* elements;
  /// @brief The first row of the tile.
  int first_row;
  /// @brief All rows; those beyond count as zeros.
  int rows;
};

/// @brief Steps along a depth.
__device__ __forceinline__ int steps_of(int depth) { return (depth + BK - 1) / BK; }

/// @brief Adds left transpose(right) to the sums, over the steps [first_step, last_step) of the
/// depth. The whole block calls it; nobody reads `stages` any more.
__device__ __forceinline__ void multiply_steps(WarpSums& sums, uint4* stages, const Factor& left,
                                               const Factor& right, int depth, int first_step,
                                               int last_step) {
  const int steps = last_step - first_step;
  const auto fetch = [&](int step) {
    uint4* const stage = stages + step % kStages * kStageUnits;
    const int k = (first_step + step) * BK;
    if (step < steps) {
      fetch_tile<kTileSide, kThreads>(stage, left.elements, left.first_row, left.rows, k, depth);
      fetch_tile<kTileSide, kThreads>(stage + kTileSide * kRowUnits, right.elements,
                                      right.first_row, right.rows, k, depth);
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
      load_left(left_part, left_tile, warp_row(), part);
      load_right(right_part, right_tile, warp_column(), part);
      multiply_step(sums, left_part, right_part);
    }
  }
}

/// @brief The same over the whole depth.
__device__ __forceinline__ void multiply_tile(WarpSums& sums, uint4* stages, const Factor& left,
                                              const Factor& right, int depth) {
  multiply_steps(sums, stages, left, right, depth, 0, steps_of(depth));
}

/// @brief Calls visit(row, column, sum) for each of this thread's sums, by their places in the
/// tile.
template <typename Visit>
__device__ __forceinline__ void visit_sums(const WarpSums& sums, const Visit& visit) {
  const int row = warp_row() + threadIdx.x % 32 / 4;
  const int column = warp_column() + threadIdx.x % 4 * 2;
#pragma unroll
  for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
    for (int j = 0; j < WN / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        visit(row + i * 16 + e / 2 * 8, column + j * 8 + e % 2, sums[i][j][e]);
      }
    }
  }
}

}  // namespace
}  // namespace ultra::kernels::matmul_bf16::block_tile

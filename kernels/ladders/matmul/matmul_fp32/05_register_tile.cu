// Rung 5: a thread computes a square of c, and keeps both of its sides in registers.
//
// Idea:   8 x 8 elements a thread. For each k it loads 8 elements of a and 8 of b and makes 64
//         multiply-adds of them. Its rows and columns are 16 apart, so that the lanes of a warp, 2 x 16
//         threads, read neighbours: one wavefront per load, no bank conflict.
// Gain:   loads from shared memory per multiply-add 9/8 -> 16/64, wavefronts likewise. The tile of c is
//         128 x 128 at 256 threads: half the sectors of global memory again, M N K/512.
// Cost:   64 registers for sums, 16 for the sides; 8 KiB of shared memory.
// Limit:  instructions: 16 loads of 4 bytes for 64 multiply-adds, one from global memory and one to
//         shared memory for each element of the tiles. And nothing happens while a tile is on its way.

#include "kernels/ladders/matmul/matmul_fp32/matmul_fp32.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::matmul_fp32 {
namespace {

using namespace simt;

constexpr int kTile = 128;             // BM = BN
constexpr int kDepth = 8;              // BK
constexpr int kOwn = 8;                // TM = TN
constexpr int kAcross = kTile / kOwn;  // threads in each direction; also how far rows are apart
constexpr int kThreads = kAcross * kAcross;
constexpr int kLoads = kTile * kDepth / kThreads;  // elements of each tile that a thread loads

__global__ void __launch_bounds__(kThreads)
    register_tile_kernel(const float* __restrict__ a, const float* __restrict__ b,
                         float* __restrict__ c, int rows, int columns, int depth) {
  __shared__ float tile_a[kTile][kDepth];  // (row, k)
  __shared__ float tile_b[kDepth][kTile];  // (k, column)
  const int thread = threadIdx.x;
  const int first_row = blockIdx.y * kTile;
  const int first_column = blockIdx.x * kTile;
  const int own_row = thread / kAcross;
  const int own_column = thread % kAcross;
  float sums[kOwn][kOwn] = {};
  for (int first = 0; first < depth; first += kDepth) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int row = i * (kThreads / kDepth) + thread / kDepth;
      const int k = thread % kDepth;
      float left = 0.0F;
      if (branch(first_row + row < rows && first + k < depth)) {
        left = ldg(&a[(first_row + row) * depth + first + k]);
      }
      sts(&tile_a[row][k], left);
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int k = i * (kThreads / kTile) + thread / kTile;
      const int column = thread % kTile;
      float right = 0.0F;
      if (branch(first + k < depth && first_column + column < columns)) {
        right = ldg(&b[(first + k) * columns + first_column + column]);
      }
      sts(&tile_b[k][column], right);
    }
    __syncthreads();  // without it, a warp multiplies what another has not stored yet
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      float left[kOwn];
      float right[kOwn];
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
        left[i] = lds(&tile_a[own_row + i * kAcross][k]);
        right[i] = lds(&tile_b[k][own_column + i * kAcross]);
      }
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
#pragma unroll
        for (int j = 0; j < kOwn; ++j) {
          sums[i][j] += left[i] * right[j];
        }
      }
    }
    __syncthreads();  // without it, the next tile overwrites what a slower warp still multiplies
  }
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    const int row = first_row + own_row + i * kAcross;
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      const int column = first_column + own_column + j * kAcross;
      if (branch(row < rows && column < columns)) {
        stg(&c[row * columns + column], sums[i][j]);
      }
    }
  }
}

}  // namespace

template <>
void register_tile<kExecutor>(const Problem& problem, const Queue& queue) {
  launch(register_tile_kernel,
         {.name = "register_tile",
          .grid = {.x = ceil_div(problem.columns, kTile), .y = ceil_div(problem.rows, kTile)},
          .block = {.x = kThreads},
          .queue = queue},
         problem.a, problem.b, problem.c, problem.rows, problem.columns, problem.depth);
}

}  // namespace ultra::kernels::matmul_fp32

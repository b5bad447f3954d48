// Rung 4 of matmul_fp32: a thread computes several elements of c and keeps what they share in a register.
//
// Idea:   a thread has 8 rows of one column of c. For each k it loads one element of b, which stays in
//         a register for 8 multiply-adds, and 8 elements of a.
// Gain:   loads from shared memory per multiply-add 2 -> 9/8. The block's tile of c grows to 64 x 64 at
//         512 threads: half the sectors of global memory, M N K/256.
// Cost:   8 registers for sums. The tiles are 64 x 8 of a and 8 x 64 of b: 4 KiB, one element of each
//         per thread.
// Limit:  still one load per multiply-add, nearly all of them of a: the other direction is next.

#include "kernels/ladders/matmul/matmul_fp32/matmul_fp32.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::matmul_fp32 {
namespace {

using namespace simt;

constexpr int kTile = 64;          // BM = BN
constexpr int kDepth = 8;          // BK
constexpr int kRowsPerThread = 8;  // TM
constexpr int kThreads = kTile * kTile / kRowsPerThread;
static_assert(kThreads == kTile * kDepth, "each thread loads one element of each tile");

__global__ void __launch_bounds__(kThreads)
    coarsened_kernel(const float* __restrict__ a, const float* __restrict__ b,
                     float* __restrict__ c, int rows, int columns, int depth) {
  __shared__ float tile_a[kTile][kDepth];  // (row, k)
  __shared__ float tile_b[kDepth][kTile];  // (k, column)
  const int thread = threadIdx.x;
  const int first_row = blockIdx.y * kTile;
  const int first_column = blockIdx.x * kTile;
  // What the thread loads: 8 neighbours in k are one sector of a, 32 neighbours in a row four of b.
  const int row_a = thread / kDepth;
  const int k_a = thread % kDepth;
  const int k_b = thread / kTile;
  const int column_b = thread % kTile;
  // What it computes: rows own_row to own_row + 7 of a column; the lanes of a warp share the rows.
  const int own_row = thread / kTile * kRowsPerThread;
  const int own_column = thread % kTile;
  float sums[kRowsPerThread] = {};
  for (int first = 0; first < depth; first += kDepth) {
    float left = 0.0F;
    if (branch(first_row + row_a < rows && first + k_a < depth)) {
      left = ldg(&a[(first_row + row_a) * depth + first + k_a]);
    }
    float right = 0.0F;
    if (branch(first + k_b < depth && first_column + column_b < columns)) {
      right = ldg(&b[(first + k_b) * columns + first_column + column_b]);
    }
    sts(&tile_a[row_a][k_a], left);
    sts(&tile_b[k_b][column_b], right);
    __syncthreads();  // without it, a warp multiplies what another has not stored yet
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      const float from_b = lds(&tile_b[k][own_column]);
#pragma unroll
      for (int i = 0; i < kRowsPerThread; ++i) {
        const float from_a = lds(&tile_a[own_row + i][k]);
        sums[i] += from_a * from_b;
      }
    }
    __syncthreads();  // without it, the next tile overwrites what a slower warp still multiplies
  }
#pragma unroll
  for (int i = 0; i < kRowsPerThread; ++i) {
    const int row = first_row + own_row + i;
    const int column = first_column + own_column;
    if (branch(row < rows && column < columns)) {
      stg(&c[row * columns + column], sums[i]);
    }
  }
}

}  // namespace

template <>
void coarsened<kExecutor>(const Problem& problem, const Queue& queue) {
  launch(coarsened_kernel,
         {.name = "coarsened",
          .grid = {.x = ceil_div(problem.columns, kTile), .y = ceil_div(problem.rows, kTile)},
          .block = {.x = kThreads},
          .queue = queue},
         problem.a, problem.b, problem.c, problem.rows, problem.columns, problem.depth);
}

}  // namespace ultra::kernels::matmul_fp32

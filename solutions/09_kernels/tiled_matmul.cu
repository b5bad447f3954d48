// Rung 3 of matmul_fp32: a block keeps what its threads share in shared memory.
//
// Idea:   the 32 x 32 threads of a block need 32 rows of a and 32 columns of b, each element 32 times.
//         They walk along the depth in tiles of 32: load one element of a and one of b each, wait, and
//         multiply from shared memory.
// Gain:   loads from global memory per multiply-add 2 -> 2/32: a and b are read N/32 and M/32 times
//         instead of N and M times (M N K/128 sectors in all).
// Cost:   8 KiB of shared memory a block; 2 loads from it per multiply-add, one wavefront each: lanes
//         read one element of a (a broadcast) and 32 neighbours of b, so there is no bank conflict.
// Limit:  those two loads. Shared memory serves one request per cycle and SM, the arithmetic takes four.

#include "kernels/ladders/matmul/matmul_fp32/matmul_fp32.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::matmul_fp32 {
namespace {

using namespace simt;

constexpr int kTile = 32;  // BM = BN = BK, and threads in each direction

// [region tiles]
__global__ void __launch_bounds__(kTile* kTile)
    tiled_kernel(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c,
                 int rows, int columns, int depth) {
  __shared__ float tile_a[kTile][kTile];  // (row, k)
  __shared__ float tile_b[kTile][kTile];  // (k, column)
  const int x = threadIdx.x;
  const int y = threadIdx.y;
  const int row = blockIdx.y * kTile + y;
  const int column = blockIdx.x * kTile + x;
  float sum = 0.0F;
  for (int first = 0; first < depth; first += kTile) {
    // Outside the matrices stand zeros, which add nothing. Threads outside c load, too.
    float left = 0.0F;
    if (branch(row < rows && first + x < depth)) {
      left = ldg(&a[row * depth + first + x]);
    }
    float right = 0.0F;
    if (branch(first + y < depth && column < columns)) {
      right = ldg(&b[(first + y) * columns + column]);
    }
    sts(&tile_a[y][x], left);
    sts(&tile_b[y][x], right);
    __syncthreads();  // without it, a warp multiplies what another has not stored yet
#pragma unroll
    for (int k = 0; k < kTile; ++k) {
      const float from_a = lds(&tile_a[y][k]);
      const float from_b = lds(&tile_b[k][x]);
      sum += from_a * from_b;
    }
    __syncthreads();  // without it, the next tile overwrites what a slower warp still multiplies
  }
  if (branch(row < rows && column < columns)) {
    stg(&c[row * columns + column], sum);
  }
}
// [/region]

}  // namespace

template <>
void tiled<kExecutor>(const Problem& problem, const Queue& queue) {
  launch(tiled_kernel,
         {.name = "tiled",
          .grid = {.x = ceil_div(problem.columns, kTile), .y = ceil_div(problem.rows, kTile)},
          .block = {.x = kTile, .y = kTile},
          .queue = queue},
         problem.a, problem.b, problem.c, problem.rows, problem.columns, problem.depth);
}

}  // namespace ultra::kernels::matmul_fp32

// Rung 4: ldmatrix, from rows that are swizzled instead of padded.
//
// Idea:   one instruction loads four matrices of 8 x 8, each row from another lane's address. Unit u
//         of row r lies in place u xor (r % 8): eight rows below each other then lie in all 32 banks,
//         with no byte of padding (units.cuh, swizzled()).
// Cost:   a warp of 64 x 32 issues 4 + 2 loads for 16 products, each of them 4 wavefronts: the least.
// Limit:  while the tiles are fetched nobody multiplies, and the other way round. Next: fetch ahead.

#include "kernels/ladders/matmul/matmul_bf16/matmul_bf16.hpp"
#include "kernels/ladders/matmul/matmul_bf16/units.cuh"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::matmul_bf16 {
namespace {

constexpr int BM = 128;
constexpr int BN = 128;
constexpr int BK = kRowUnits * kUnit;
constexpr int WM = 64;
constexpr int WN = 32;
constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads, 2)
    ldmatrix_swizzled_kernel(const bf16* __restrict__ a, const bf16* __restrict__ b,
                             bf16* __restrict__ c, int rows, int columns, int depth) {
  __shared__ __align__(128) uint4 a_tile[BM * kRowUnits];
  __shared__ __align__(128) uint4 b_tile[BN * kRowUnits];
  const int row = blockIdx.y * BM;
  const int column = blockIdx.x * BN;
  const int warp = threadIdx.x / 32;
  const int warp_row = warp / (BN / WN) * WM;
  const int warp_column = warp % (BN / WN) * WN;
  float sums[WM / 16][WN / 8][4] = {};
  for (int k = 0; k < depth; k += BK) {
    __syncthreads();  // all have read the tiles of the last step, which are overwritten now
    copy_tile<BM, kThreads>(
        [&](int tile_row, int unit) { return &a_tile[swizzled(tile_row, unit)]; }, a, row, rows, k,
        depth);
    copy_tile<BN, kThreads>(
        [&](int tile_row, int unit) { return &b_tile[swizzled(tile_row, unit)]; }, b, column,
        columns, k, depth);
    __syncthreads();  // the tiles are complete
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      unsigned left[WM / 16][4];
      unsigned right[WN / 8][2];
      load_left(left, a_tile, warp_row, step);
      load_right(right, b_tile, warp_column, step);
      multiply_step(sums, left, right);
    }
  }
  store_sums(c, row + warp_row, column + warp_column, rows, columns, sums);
}

}  // namespace

template <>
void ldmatrix_swizzled<kExecutor>(const Problem& problem, const Queue& queue) {
  launch(ldmatrix_swizzled_kernel,
         {.name = "ldmatrix_swizzled",
          .grid = {.x = ceil_div(problem.columns, BN), .y = ceil_div(problem.rows, BM)},
          .block = {.x = kThreads},
          .queue = queue},
         problem.a, problem.b, problem.c, problem.rows, problem.columns, problem.depth);
}

}  // namespace ultra::kernels::matmul_bf16

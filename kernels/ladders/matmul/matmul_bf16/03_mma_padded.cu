// Rung 3: the tensor cores' own instruction, mma.sync, whose registers are in sight.
//
// Idea:   a lane knows its elements (matrix_tiles.cuh), so it loads them itself, two bf16 per word, and
//         writes its sums to c as they are. Rows are padded by one unit: 36 words. Lane (g, t) then
//         reads word 36 g + t, which is bank 4 g + t: 32 lanes, 32 banks.
// Cost:   a warp of 64 x 32 reads 16 + 8 words for 16 products of 16 x 8 x 16.
// Limit:  24 load instructions for 16 products: the tensor cores wait for instructions of another kind.
//         Next: one instruction loads four registers.

#include "kernels/ladders/matmul/matmul_bf16/matmul_bf16.hpp"
#include "kernels/ladders/matmul/matmul_bf16/units.cuh"
#include "kernels/simt/matrix_tiles.cuh"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::matmul_bf16 {
namespace {

constexpr int BM = 128;
constexpr int BN = 128;
constexpr int BK = kRowUnits * kUnit;
constexpr int WM = 64;
constexpr int WN = 32;
constexpr int kStride = kRowUnits + 1;  // units per row, the last one padding
constexpr int kThreads = 256;

// The word of a tile that has elements k and k + 1 of a row.
__device__ __forceinline__ const unsigned* word_at(const uint4 (&tile)[BM][kStride], int row,
                                                   int k) {
  return reinterpret_cast<const unsigned*>(tile[row]) + k / 2;
}

__global__ void __launch_bounds__(kThreads, 2)
    mma_padded_kernel(const bf16* __restrict__ a, const bf16* __restrict__ b, bf16* __restrict__ c,
                      int rows, int columns, int depth) {
  __shared__ uint4 a_tile[BM][kStride];
  __shared__ uint4 b_tile[BN][kStride];
  const int row = blockIdx.y * BM;
  const int column = blockIdx.x * BN;
  const int warp = threadIdx.x / 32;
  const int group = threadIdx.x % 32 / 4;
  const int pair = threadIdx.x % 4 * 2;
  const int warp_row = warp / (BN / WN) * WM;
  const int warp_column = warp % (BN / WN) * WN;
  float sums[WM / 16][WN / 8][4] = {};
  for (int k = 0; k < depth; k += BK) {
    __syncthreads();  // all have read the tiles of the last step, which are overwritten now
    copy_tile<BM, kThreads>([&](int tile_row, int unit) { return &a_tile[tile_row][unit]; }, a, row,
                            rows, k, depth);
    copy_tile<BN, kThreads>([&](int tile_row, int unit) { return &b_tile[tile_row][unit]; }, b,
                            column, columns, k, depth);
    __syncthreads();  // the tiles are complete
#pragma unroll
    for (int step = 0; step < BK; step += 16) {
      unsigned left[WM / 16][4];
      unsigned right[WN / 8][2];
#pragma unroll
      for (int i = 0; i < WM / 16; ++i) {
        const int top = warp_row + i * 16 + group;
        left[i][0] = lds(word_at(a_tile, top, step + pair));
        left[i][1] = lds(word_at(a_tile, top + 8, step + pair));
        left[i][2] = lds(word_at(a_tile, top, step + pair + 8));
        left[i][3] = lds(word_at(a_tile, top + 8, step + pair + 8));
      }
#pragma unroll
      for (int j = 0; j < WN / 8; ++j) {
        const int b_row = warp_column + j * 8 + group;
        right[j][0] = lds(word_at(b_tile, b_row, step + pair));
        right[j][1] = lds(word_at(b_tile, b_row, step + pair + 8));
      }
      multiply_step(sums, left, right);
    }
  }
  store_sums(c, row + warp_row, column + warp_column, rows, columns, sums);
}

}  // namespace

template <>
void mma_padded<kExecutor>(const Problem& problem, const Queue& queue) {
  launch(mma_padded_kernel,
         {.name = "mma_padded",
          .grid = {.x = ceil_div(problem.columns, BN), .y = ceil_div(problem.rows, BM)},
          .block = {.x = kThreads},
          .queue = queue},
         problem.a, problem.b, problem.c, problem.rows, problem.columns, problem.depth);
}

}  // namespace ultra::kernels::matmul_bf16

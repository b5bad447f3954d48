// Rung 2: tensor cores, in the words of CUDA C++: tiles of 16 x 16 that a warp loads and multiplies.
//
// Idea:   one instruction of a warp multiplies what 32 lanes would need 128 multiply-adds each for.
//         8 warps share tiles of 128 x 64; each computes 64 x 32 elements of c.
// Cost:   a warp loads 4 + 2 tiles for 8 products.
// Limit:  which lane has which element is secret, so c goes through shared memory once more to become
//         bf16; and rows of 128 bytes all begin in bank 0, so that each load of a tile meets itself in
//         the banks. Next: registers in sight, rows that are padded.

#include "kernels/ladders/matmul/matmul_bf16/matmul_bf16.hpp"
#include "kernels/ladders/matmul/matmul_bf16/units.cuh"
#include "kernels/simt/simt.cuh"
#include "kernels/simt/tiles.cuh"

namespace ultra::kernels::matmul_bf16 {
namespace {

constexpr int BM = 128;
constexpr int BN = 128;
constexpr int BK = kRowUnits * kUnit;
constexpr int WM = 64;
constexpr int WN = 32;
constexpr int kTile = 16;
constexpr int kThreads = 256;

using Left = TileFragment<TileUse::kLeft, bf16, TileLayout::kRowMajor>;
using Right = TileFragment<TileUse::kRight, bf16, TileLayout::kColumnMajor>;
using Sum = TileFragment<TileUse::kSum, float>;

// Writes a tile of c through the warp's 16 x 16 floats of shared memory.
__device__ __forceinline__ void store_tile_of_c(bf16* c, int row, int column, int rows, int columns,
                                                float* scratch, const Sum& sum) {
  __syncwarp();  // all lanes have read the tile before
  store_tile(scratch, sum, kTile);
  __syncwarp();  // the tile is complete
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < kTile * kTile / 2; i += 32) {
    const int tile_row = (i + lane) / (kTile / 2);
    const int tile_column = (i + lane) % (kTile / 2) * 2;
    const auto* const pair =
        reinterpret_cast<const float2*>(&scratch[tile_row * kTile + tile_column]);
    const float2 values = lds(pair);
    store_pair(c, row + tile_row, column + tile_column, rows, columns, values.x, values.y);
  }
}

__global__ void __launch_bounds__(kThreads, 2)
    wmma_kernel(const bf16* __restrict__ a, const bf16* __restrict__ b, bf16* __restrict__ c,
                int rows, int columns, int depth) {
  __shared__ __align__(128) uint4 a_tile[BM][kRowUnits];
  __shared__ __align__(128) uint4 b_tile[BN][kRowUnits];
  __shared__ __align__(128) float scratch[kThreads / 32][kTile * kTile];
  const int row = blockIdx.y * BM;
  const int column = blockIdx.x * BN;
  const int warp = threadIdx.x / 32;
  const int warp_row = warp / (BN / WN) * WM;
  const int warp_column = warp % (BN / WN) * WN;
  Sum sums[WM / kTile][WN / kTile];
#pragma unroll
  for (auto& tiles : sums) {
#pragma unroll
    for (Sum& tile : tiles) {
      fill_tile(tile, 0.0F);
    }
  }
  for (int k = 0; k < depth; k += BK) {
    __syncthreads();  // all have read the tiles of the last step, which are overwritten now
    copy_tile<BM, kThreads>([&](int tile_row, int unit) { return &a_tile[tile_row][unit]; }, a, row,
                            rows, k, depth);
    copy_tile<BN, kThreads>([&](int tile_row, int unit) { return &b_tile[tile_row][unit]; }, b,
                            column, columns, k, depth);
    __syncthreads();  // the tiles are complete
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      Left left[WM / kTile];
      Right right[WN / kTile];
#pragma unroll
      for (int i = 0; i < WM / kTile; ++i) {
        const auto* const tile =
            reinterpret_cast<const bf16*>(&a_tile[warp_row + i * kTile][step * 2]);
        load_tile(left[i], tile, BK);
      }
#pragma unroll
      for (int j = 0; j < WN / kTile; ++j) {
        const auto* const tile =
            reinterpret_cast<const bf16*>(&b_tile[warp_column + j * kTile][step * 2]);
        load_tile(right[j], tile, BK);
      }
#pragma unroll
      for (int i = 0; i < WM / kTile; ++i) {
#pragma unroll
        for (int j = 0; j < WN / kTile; ++j) {
          multiply_tiles(sums[i][j], left[i], right[j], sums[i][j]);
        }
      }
    }
  }
#pragma unroll
  for (int i = 0; i < WM / kTile; ++i) {
#pragma unroll
    for (int j = 0; j < WN / kTile; ++j) {
      store_tile_of_c(c, row + warp_row + i * kTile, column + warp_column + j * kTile, rows,
                      columns, scratch[warp], sums[i][j]);
    }
  }
}

}  // namespace

template <>
void wmma<kExecutor>(const Problem& problem, const Queue& queue) {
  launch(wmma_kernel,
         {.name = "wmma",
          .grid = {.x = ceil_div(problem.columns, BN), .y = ceil_div(problem.rows, BM)},
          .block = {.x = kThreads},
          .queue = queue},
         problem.a, problem.b, problem.c, problem.rows, problem.columns, problem.depth);
}

}  // namespace ultra::kernels::matmul_bf16

// Rung 11: one block per multiprocessor, which stays and computes tile after tile. Checked on the emulator, right on an H200.
//
// Idea:   the fetcher goes on to the next tile while the multipliers store c: the ring knows nothing of
//         tiles. And the block chooses its tiles: those that are computed at the same time form a band
//         of c (tile_order.cuh), so that their rows of a and b stay in the second-level cache.
// Moves:  132 tiles of 128 x 256 at once as 16 x 8: (16 x 128 + 8 x 256) rows of K from memory instead
//         of up to (4 x 128 + 32 x 256) where whole rows of tiles are computed (N = 8192).
// Limit:  two blocks that compute tiles below each other fetch the same b twice. Next: they share it.

#include <algorithm>

#include "kernels/ladders/matmul/matmul_bf16/hopper/prepare.cuh"
#include "kernels/ladders/matmul/matmul_bf16/hopper/ring.cuh"
#include "kernels/ladders/matmul/matmul_bf16/matmul_bf16.hpp"
#include "kernels/ladders/matmul/matmul_bf16/tile_order.cuh"

namespace ultra::kernels::matmul_bf16 {
namespace {

constexpr int BM = 128;
constexpr int BN = 256;
constexpr int kStages = 4;
constexpr int kBand = 16;  // rows of tiles
constexpr int kConsumers = BM / kRows;
constexpr int kThreads = (1 + kConsumers) * kWarpgroup;
constexpr int kFetcherRegisters = 40;
constexpr int kMultiplierRegisters = 232;

using Shared = Ring<BM, BN, kStages>;

__global__ void __launch_bounds__(kThreads, 1)
    persistent_kernel(const __grid_constant__ TensorMap a_map,
                      const __grid_constant__ TensorMap b_map, bf16* __restrict__ c, int rows,
                      int columns, int depth) {
  auto& ring = aligned_shared<Shared>();
  const int row_tiles = (rows + BM - 1) / BM;
  const int column_tiles = (columns + BN - 1) / BN;
  if (threadIdx.x == 0) {
    ring.init(kConsumers * kWarpgroup / 32);
  }
  __syncthreads();                 // without it, others wait at barriers that do not exist yet
  RingPosition<kStages> position;  // goes on from tile to tile
  const int warpgroup = warpgroup_index();
  if (warpgroup == 0) {
    give_registers<kFetcherRegisters>();
    if (threadIdx.x == 0) {
      for (int tile = blockIdx.x; tile < row_tiles * column_tiles; tile += gridDim.x) {
        const auto [row, column] = tile_at(tile, row_tiles, column_tiles, kBand);
        fetch_into(ring, position, a_map, b_map, row * BM, column * BN, depth);
      }
    }
  } else {
    take_registers<kMultiplierRegisters>();
    const int first_row = (warpgroup - 1) * kRows;
    for (int tile = blockIdx.x; tile < row_tiles * column_tiles; tile += gridDim.x) {
      const auto [row, column] = tile_at(tile, row_tiles, column_tiles, kBand);
      float sums[1][BN / 2] = {};
      multiply_from(ring, position, sums, first_row, depth,
                    [&](int stage) { release(ring.are_empty[stage]); });
      store_warpgroup_sums(c, row * BM + first_row, column * BN, rows, columns, sums);
    }
  }
}

}  // namespace

template <>
void persistent<kExecutor>(const Problem& problem, const Queue& queue) {
  expect_hopper<kExecutor>(problem);
  const unsigned tiles = ceil_div(problem.columns, BN) * ceil_div(problem.rows, BM);
  launch(persistent_kernel,
         {.name = "persistent",
          .grid = {.x = std::min(tiles, count_multiprocessors(queue))},
          .block = {.x = kThreads},
          .shared_bytes = bytes_of<Shared>(),
          .queue = queue},
         describe_matrix(problem.a, problem.rows, problem.depth, BM),
         describe_matrix(problem.b, problem.columns, problem.depth, BN), problem.c, problem.rows,
         problem.columns, problem.depth);
}

}  // namespace ultra::kernels::matmul_bf16

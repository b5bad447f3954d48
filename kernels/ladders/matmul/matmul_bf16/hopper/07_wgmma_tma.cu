// Rung 7: Hopper's own instructions. Checked on the emulator, right on an H200.
//
// Idea:   one thread asks the copy engine (TMA) for a box of a and one of b; a barrier that counts their
//         bytes says when they are there; four warps together multiply them where they lie (wgmma).
//         No operand passes through a register.
// Moves:  a block of 64 x 64 loads 64 elements of depth as two boxes of 8 KiB for 2 x 64^3 operations.
// Limit:  32 operations per byte of the second-level cache, and nobody multiplies while boxes travel.
//         Next: larger tiles.

#include "kernels/hopper/wgmma.cuh"
#include "kernels/ladders/matmul/matmul_bf16/hopper/prepare.cuh"
#include "kernels/ladders/matmul/matmul_bf16/matmul_bf16.hpp"

namespace ultra::kernels::matmul_bf16 {
namespace {

constexpr int BM = 64;
constexpr int BN = 64;
constexpr int BK = kRowUnits * kUnit;

struct Shared {
  uint4 a[BM * kRowUnits];
  uint4 b[BN * kRowUnits];
  Barrier are_full;
};

__global__ void __launch_bounds__(kWarpgroup)
    wgmma_tma_kernel(const __grid_constant__ TensorMap a_map,
                     const __grid_constant__ TensorMap b_map, bf16* __restrict__ c, int rows,
                     int columns, int depth) {
  auto& shared = aligned_shared<Shared>();
  const int row = blockIdx.y * BM;
  const int column = blockIdx.x * BN;
  if (threadIdx.x == 0) {
    init_barrier(shared.are_full, 1);
    publish_barriers();
  }
  __syncthreads();  // without it, others wait at a barrier that does not exist yet
  float sums[1][BN / 2] = {};
  unsigned parity = 0;
  for (int k = 0; k < depth; k += BK) {
    if (threadIdx.x == 0) {
      arrive_and_expect(shared.are_full, sizeof shared.a + sizeof shared.b);
      fetch_box(shared.a, a_map, row, k, shared.are_full);
      fetch_box(shared.b, b_map, column, k, shared.are_full);
    }
    wait_for(shared.are_full, parity);
    parity ^= 1U;
    multiply_tiles_async(sums, shared.a, shared.b);
    wait_for_products<0>();
    __syncthreads();  // without it, the next boxes overwrite what other warps still multiply
  }
  hold_in_place(sums);
  store_warpgroup_sums(c, row, column, rows, columns, sums);
}

}  // namespace

template <>
void wgmma_tma<kExecutor>(const Problem& problem, const Queue& queue) {
  expect_hopper<kExecutor>(problem);
  launch(wgmma_tma_kernel,
         {.name = "wgmma_tma",
          .grid = {.x = ceil_div(problem.columns, BN), .y = ceil_div(problem.rows, BM)},
          .block = {.x = kWarpgroup},
          .shared_bytes = bytes_of<Shared>(),
          .queue = queue},
         describe_matrix(problem.a, problem.rows, problem.depth, BM),
         describe_matrix(problem.b, problem.columns, problem.depth, BN), problem.c, problem.rows,
         problem.columns, problem.depth);
}

}  // namespace ultra::kernels::matmul_bf16

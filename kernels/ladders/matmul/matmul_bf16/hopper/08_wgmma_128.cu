// Rung 8: the same with tiles of 128 x 128. Checked on the emulator, right on an H200.
//
// Idea:   twice the rows and columns are four times the products for twice the boxes. The warpgroup
//         multiplies the upper and the lower 64 rows one after the other with the same b.
// Moves:  64 operations per byte instead of 32; 128 registers of sums per thread.
// Limit:  a block still either fetches or multiplies; only its neighbours on the multiprocessor fill
//         the gaps. Next: somebody who does nothing but fetch.

#include "kernels/hopper/wgmma.cuh"
#include "kernels/ladders/matmul/matmul_bf16/hopper/prepare.cuh"
#include "kernels/ladders/matmul/matmul_bf16/matmul_bf16.hpp"

namespace ultra::kernels::matmul_bf16 {
namespace {

constexpr int BM = 128;
constexpr int BN = 128;
constexpr int BK = kRowUnits * kUnit;

struct Shared {
  uint4 a[BM * kRowUnits];
  uint4 b[BN * kRowUnits];
  Barrier are_full;
};

__global__ void __launch_bounds__(kWarpgroup)
    wgmma_128_kernel(const __grid_constant__ TensorMap a_map,
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
  float sums[BM / kRows][BN / 2] = {};
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
void wgmma_128<kExecutor>(const Problem& problem, const Queue& queue) {
  expect_hopper<kExecutor>(problem);
  launch(wgmma_128_kernel,
         {.name = "wgmma_128",
          .grid = {.x = ceil_div(problem.columns, BN), .y = ceil_div(problem.rows, BM)},
          .block = {.x = kWarpgroup},
          .shared_bytes = bytes_of<Shared>(),
          .queue = queue},
         describe_matrix(problem.a, problem.rows, problem.depth, BM),
         describe_matrix(problem.b, problem.columns, problem.depth, BN), problem.c, problem.rows,
         problem.columns, problem.depth);
}

}  // namespace ultra::kernels::matmul_bf16

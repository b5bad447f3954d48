// Rung 10: a tile of 128 x 256 for two multiplying warpgroups. Checked on the emulator, right on an H200.
//
// Idea:   each has 64 rows and all 256 columns, so both read the same b, with the widest instruction
//         there is. While one waits at a barrier, the other keeps the tensor cores busy. The fetcher
//         needs hardly any registers and gives them to the multipliers (setmaxnreg).
// Moves:  85 operations per byte instead of 64. Registers: at launch 168 for each of 384 threads; then
//         40 + 2 x 232 per 3 threads, the same 504.
// Limit:  when c is stored, nobody fetches or multiplies; and blocks that run at the same time want
//         whatever tiles come next. Next: blocks that stay.

#include "kernels/ladders/matmul/matmul_bf16/hopper/prepare.cuh"
#include "kernels/ladders/matmul/matmul_bf16/hopper/ring.cuh"
#include "kernels/ladders/matmul/matmul_bf16/matmul_bf16.hpp"

namespace ultra::kernels::matmul_bf16 {
namespace {

constexpr int BM = 128;
constexpr int BN = 256;
constexpr int kStages = 4;
constexpr int kConsumers = BM / kRows;
constexpr int kThreads = (1 + kConsumers) * kWarpgroup;
constexpr int kFetcherRegisters = 40;
constexpr int kMultiplierRegisters = 232;

using Shared = Ring<BM, BN, kStages>;

__global__ void __launch_bounds__(kThreads, 1)
    two_consumers_kernel(const __grid_constant__ TensorMap a_map,
                         const __grid_constant__ TensorMap b_map, bf16* __restrict__ c, int rows,
                         int columns, int depth) {
  auto& ring = aligned_shared<Shared>();
  const int row = blockIdx.y * BM;
  const int column = blockIdx.x * BN;
  if (threadIdx.x == 0) {
    ring.init(kConsumers * kWarpgroup / 32);
  }
  __syncthreads();  // without it, others wait at barriers that do not exist yet
  RingPosition<kStages> position;
  const int warpgroup = warpgroup_index();
  if (warpgroup == 0) {
    give_registers<kFetcherRegisters>();
    if (threadIdx.x == 0) {
      fetch_into(ring, position, a_map, b_map, row, column, depth);
    }
  } else {
    take_registers<kMultiplierRegisters>();
    const int first_row = (warpgroup - 1) * kRows;
    float sums[1][BN / 2] = {};
    multiply_from(ring, position, sums, first_row, depth,
                  [&](int stage) { release(ring.are_empty[stage]); });
    store_warpgroup_sums(c, row + first_row, column, rows, columns, sums);
  }
}

}  // namespace

template <>
void two_consumers<kExecutor>(const Problem& problem, const Queue& queue) {
  expect_hopper<kExecutor>(problem);
  launch(two_consumers_kernel,
         {.name = "two_consumers",
          .grid = {.x = ceil_div(problem.columns, BN), .y = ceil_div(problem.rows, BM)},
          .block = {.x = kThreads},
          .shared_bytes = bytes_of<Shared>(),
          .queue = queue},
         describe_matrix(problem.a, problem.rows, problem.depth, BM),
         describe_matrix(problem.b, problem.columns, problem.depth, BN), problem.c, problem.rows,
         problem.columns, problem.depth);
}

}  // namespace ultra::kernels::matmul_bf16

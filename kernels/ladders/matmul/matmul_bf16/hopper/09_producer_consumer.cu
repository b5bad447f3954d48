// Rung 9: one warpgroup fetches, the other multiplies. Checked on the emulator, right on an H200.
//
// Idea:   a ring of four stages between them (ring.cuh). The fetcher runs ahead until the ring is full;
//         the multiplier finds its next boxes already there. Both wait only for each other's barriers,
//         never for the whole block.
// Moves:  the boxes of four steps, 128 KiB, are on their way or waiting at any time: more than the
//         latency of memory times its share of the bandwidth.
// Limit:  one warpgroup multiplies at a time: the tensor cores idle while it waits at a barrier, and
//         while it stores c. Next: two of them.

#include "kernels/ladders/matmul/matmul_bf16/hopper/prepare.cuh"
#include "kernels/ladders/matmul/matmul_bf16/hopper/ring.cuh"
#include "kernels/ladders/matmul/matmul_bf16/matmul_bf16.hpp"

namespace ultra::kernels::matmul_bf16 {
namespace {

constexpr int BM = 128;
constexpr int BN = 128;
constexpr int kStages = 4;
constexpr int kThreads = 2 * kWarpgroup;

using Shared = Ring<BM, BN, kStages>;

__global__ void __launch_bounds__(kThreads, 1)
    producer_consumer_kernel(const __grid_constant__ TensorMap a_map,
                             const __grid_constant__ TensorMap b_map, bf16* __restrict__ c,
                             int rows, int columns, int depth) {
  auto& ring = aligned_shared<Shared>();
  const int row = blockIdx.y * BM;
  const int column = blockIdx.x * BN;
  if (threadIdx.x == 0) {
    ring.init(kWarpgroup / 32);
  }
  __syncthreads();  // without it, others wait at barriers that do not exist yet
  // [region producer_consumer]
  RingPosition<kStages> position;
  const int warpgroup = warpgroup_index();
  if (warpgroup == 0) {
    if (threadIdx.x == 0) {
      fetch_into(ring, position, a_map, b_map, row, column, depth);
    }
  } else {
    float sums[BM / kRows][BN / 2] = {};
    multiply_from(ring, position, sums, 0, depth,
                  [&](int stage) { release(ring.are_empty[stage]); });
    store_warpgroup_sums(c, row, column, rows, columns, sums);
  }
  // [/region]
}

}  // namespace

template <>
void producer_consumer<kExecutor>(const Problem& problem, const Queue& queue) {
  expect_hopper<kExecutor>(problem);
  launch(producer_consumer_kernel,
         {.name = "producer_consumer",
          .grid = {.x = ceil_div(problem.columns, BN), .y = ceil_div(problem.rows, BM)},
          .block = {.x = kThreads},
          .shared_bytes = bytes_of<Shared>(),
          .queue = queue},
         describe_matrix(problem.a, problem.rows, problem.depth, BM),
         describe_matrix(problem.b, problem.columns, problem.depth, BN), problem.c, problem.rows,
         problem.columns, problem.depth);
}

}  // namespace ultra::kernels::matmul_bf16

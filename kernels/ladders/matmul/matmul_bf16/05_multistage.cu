// Rung 5: copies that go on in the background, into a ring of three stages.
//
// Idea:   cp.async brings the tiles of the steps after next while the tensor cores work on this one. It
//         goes past the registers, so that nothing waits for it but wait_copies().
// Moves:  one barrier per step instead of two: it says both that the copies of this step have landed
//         for all, and that all have read the stage which is fetched into next.
// Limit:  a warp of 64 x 32 loads 6 times, 24 wavefronts, for 16 products. These take an A100's
//         multiprocessor 32 cycles (1024 multiply-adds each: NVIDIA A100 whitepaper), and shared memory
//         has one wavefront a cycle for loads and copies alike. Next: larger tiles of a warp.

#include "kernels/ladders/matmul/matmul_bf16/fetch.cuh"
#include "kernels/ladders/matmul/matmul_bf16/matmul_bf16.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::matmul_bf16 {
namespace {

constexpr int BM = 128;
constexpr int BN = 128;
constexpr int BK = kRowUnits * kUnit;
constexpr int WM = 64;
constexpr int WN = 32;
constexpr int kThreads = 256;
constexpr int kStages = 3;
constexpr int kStageUnits = (BM + BN) * kRowUnits;  // a's tile, then b's

__global__ void __launch_bounds__(kThreads, 2)
    multistage_kernel(const bf16* __restrict__ a, const bf16* __restrict__ b, bf16* __restrict__ c,
                      int rows, int columns, int depth) {
  uint4* const stages = dynamic_shared<uint4>();
  const int row = blockIdx.y * BM;
  const int column = blockIdx.x * BN;
  const int warp = threadIdx.x / 32;
  const int warp_row = warp / (BN / WN) * WM;
  const int warp_column = warp % (BN / WN) * WN;
  const auto fetch = [&](int step) {
    uint4* const stage = stages + step % kStages * kStageUnits;
    if (step * BK < depth) {
      fetch_tile<BM, kThreads>(stage, a, row, rows, step * BK, depth);
      fetch_tile<BN, kThreads>(stage + BM * kRowUnits, b, column, columns, step * BK, depth);
    }
    commit_copies();  // also an empty group: wait_copies() counts groups
  };
#pragma unroll
  for (int step = 0; step < kStages - 1; ++step) {
    fetch(step);
  }
  float sums[WM / 16][WN / 8][4] = {};
  for (int step = 0; step * BK < depth; ++step) {
    wait_copies<kStages - 2>();
    __syncthreads();  // this step's copies have landed for all; all have read the step before
    fetch(step + kStages - 1);
    const uint4* const a_tile = stages + step % kStages * kStageUnits;
    const uint4* const b_tile = a_tile + BM * kRowUnits;
#pragma unroll
    for (int part = 0; part < kSteps; ++part) {
      unsigned left[WM / 16][4];
      unsigned right[WN / 8][2];
      load_left(left, a_tile, warp_row, part);
      load_right(right, b_tile, warp_column, part);
      multiply_step(sums, left, right);
    }
  }
  store_sums(c, row + warp_row, column + warp_column, rows, columns, sums);
}

}  // namespace

template <>
void multistage<kExecutor>(const Problem& problem, const Queue& queue) {
  launch(multistage_kernel,
         {.name = "multistage",
          .grid = {.x = ceil_div(problem.columns, BN), .y = ceil_div(problem.rows, BM)},
          .block = {.x = kThreads},
          .shared_bytes = sizeof(uint4) * kStageUnits * kStages,
          .queue = queue},
         problem.a, problem.b, problem.c, problem.rows, problem.columns, problem.depth);
}

}  // namespace ultra::kernels::matmul_bf16

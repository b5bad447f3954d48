// Rung 6: a warp computes 64 x 64, and its operands of the next part come while it multiplies.
//
// Idea:   4 + 4 loads now serve 32 products instead of 4 + 2 serving 16: loads per product fall from
//         3/8 to 1/4. The registers of the operands exist twice, so that no product waits for a load.
// Cost:   128 registers of sums and 64 of operands per thread: one block of 128 x 256 per
//         multiprocessor, with three stages of 48 KiB.
// Limit:  mma.sync itself: every operand passes through registers, and an H100 gives the full rate of
//         its tensor cores to wgmma alone, which reads shared memory. Next: Hopper's own instructions.

#include "kernels/ladders/matmul/matmul_bf16/fetch.cuh"
#include "kernels/ladders/matmul/matmul_bf16/matmul_bf16.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::matmul_bf16 {
namespace {

constexpr int BM = 128;
constexpr int BN = 256;
constexpr int BK = kRowUnits * kUnit;
constexpr int WM = 64;
constexpr int WN = 64;
constexpr int kThreads = 256;
constexpr int kStages = 3;
constexpr int kStageUnits = (BM + BN) * kRowUnits;  // a's tile, then b's

// The operands of one part of a step.
struct Operands {
  unsigned left[WM / 16][4];
  unsigned right[WN / 8][2];
};

__global__ void __launch_bounds__(kThreads, 1)
    wide_warp_tile_kernel(const bf16* __restrict__ a, const bf16* __restrict__ b,
                          bf16* __restrict__ c, int rows, int columns, int depth) {
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
  const auto load = [&](Operands& operands, int step, int part) {
    const uint4* const stage = stages + step % kStages * kStageUnits;
    load_left(operands.left, stage, warp_row, part);
    load_right(operands.right, stage + BM * kRowUnits, warp_column, part);
  };
#pragma unroll
  for (int step = 0; step < kStages - 1; ++step) {
    fetch(step);
  }
  wait_copies<kStages - 2>();
  __syncthreads();  // the copies of step 0 have landed for all
  Operands operands[2];
  load(operands[0], 0, 0);
  float sums[WM / 16][WN / 8][4] = {};
  for (int step = 0; step * BK < depth; ++step) {
#pragma unroll
    for (int part = 0; part < kSteps; ++part) {
      const bool is_last = part == kSteps - 1;
      if (is_last) {
        wait_copies<kStages - 2>();
        __syncthreads();  // the next step's copies have landed for all; all have read this step
      }
      // Behind the last step there is nothing to load.
      if (!is_last || (step + 1) * BK < depth) {
        load(operands[(part + 1) % 2], is_last ? step + 1 : step, (part + 1) % kSteps);
      }
      if (part == 0) {
        fetch(step + kStages - 1);
      }
      multiply_step(sums, operands[part % 2].left, operands[part % 2].right);
    }
  }
  store_sums(c, row + warp_row, column + warp_column, rows, columns, sums);
}

}  // namespace

template <>
void wide_warp_tile<kExecutor>(const Problem& problem, const Queue& queue) {
  launch(wide_warp_tile_kernel,
         {.name = "wide_warp_tile",
          .grid = {.x = ceil_div(problem.columns, BN), .y = ceil_div(problem.rows, BM)},
          .block = {.x = kThreads},
          .shared_bytes = sizeof(uint4) * kStageUnits * kStages,
          .queue = queue},
         problem.a, problem.b, problem.c, problem.rows, problem.columns, problem.depth);
}

}  // namespace ultra::kernels::matmul_bf16

// Rung 9: a larger tile, and two sets of registers for its sides.
//
// Idea:   while a lane multiplies the sides of one k, the loads of the next k's are under way, across
//         the end of a tile, too: the barrier stands before the last k's multiply-adds. The registers
//         for it come from a larger block, one an SM: 8 warps, 128 x 256 of c.
// Gain:   waiting time again. Global sectors M N K (1/128 + 1/256)/8 instead of M N K (2/128)/8; copies
//         per thread and tile 6 instead of 10, each with its address and its edge to work out: that
//         many instructions more are multiply-adds. The loads from shared memory are rung 7's.
// Cost:   all registers of an SM: 128 for sums, 48 for sides; 36 KiB of shared memory in 3 stages.
// Limit:  fewer blocks than SMs for a small c. For a large one: the instructions that are no
//         multiply-adds (6 loads for 128), and whatever clock the power allows.

#include "kernels/ladders/matmul/matmul_fp32/tile_copies.cuh"
#include "kernels/ladders/matmul/matmul_fp32/warp_tile.cuh"

namespace ultra::kernels::matmul_fp32 {
namespace {

using namespace simt;

constexpr int kTileRows = 128;     // BM
constexpr int kTileColumns = 256;  // BN; BK is kCopyDepth
constexpr int kWarpsAcross = kTileColumns / kWarpTile;
constexpr int kThreads = kTileRows / kWarpTile * kWarpsAcross * 32;
constexpr int kStages = 3;
static_assert(kCopyDepth % 2 == 0, "the sides of each tile's first k stand in the same registers");

template <RowStart kStart>
__global__ void __launch_bounds__(kThreads, 1)
    large_tile_kernel(const float* __restrict__ a, const float* __restrict__ b,
                      float* __restrict__ c, int rows, int columns, int depth) {
  __shared__ Stage<kTileRows, kTileColumns> stages[kStages];
  const int first_row = blockIdx.y * kTileRows;
  const int first_column = blockIdx.x * kTileColumns;
  const LanePlace own = lane_place(threadIdx.x, kWarpsAcross);
  TileCopier<kStart, kThreads, kTileRows, kTileColumns> copier(a, b, first_row, first_column, rows,
                                                               columns, depth);
#pragma unroll
  for (int stage = 0; stage < kStages - 1; ++stage) {
    copier.copy_next(stages[stage]);
    commit_copies();
  }
  wait_copies<kStages - 2>();
  __syncthreads();  // without it, a warp loads what another's copies have not brought yet
  Sides sides[2];
  load_sides(sides[0], &stages[0].a[0][own.row], &stages[0].b[0][own.column]);
  Sums sums;
  int now = 0;             // the stage that is multiplied
  int free = kStages - 1;  // the one to copy to
  for (int first = 0; first < depth; first += kCopyDepth) {
    const int next = now + 1 == kStages ? 0 : now + 1;
#pragma unroll
    for (int k = 0; k < kCopyDepth; ++k) {
      const bool is_last = k + 1 == kCopyDepth;
      if (is_last) {
        wait_copies<kStages - 2>();
        // Without it, a warp loads what another's copies have not brought yet, and the next round
        // copies to the stage `now`, from which a slower warp still loads.
        __syncthreads();
      }
      const int next_k = is_last ? 0 : k + 1;
      const Stage<kTileRows, kTileColumns>& stage = stages[is_last ? next : now];
      load_sides(sides[(k + 1) % 2], &stage.a[next_k][own.row], &stage.b[next_k][own.column]);
      if (k == 0) {
        copier.copy_next(stages[free]);
        commit_copies();
      }
      multiply_add(sums, sides[k % 2]);
    }
    free = now;
    now = next;
  }
  store_sums<kStart>(c, sums, first_row + own.row, first_column + own.column, rows, columns);
}

}  // namespace

template <>
void large_tile<kExecutor>(const Problem& problem, const Queue& queue) {
  launch(row_start(problem.columns) == RowStart::kAligned ? large_tile_kernel<RowStart::kAligned>
                                                          : large_tile_kernel<RowStart::kAnywhere>,
         {.name = "large_tile",
          .grid = {.x = ceil_div(problem.columns, kTileColumns),
                   .y = ceil_div(problem.rows, kTileRows)},
          .block = {.x = kThreads},
          .queue = queue},
         problem.a, problem.b, problem.c, problem.rows, problem.columns, problem.depth);
}

}  // namespace ultra::kernels::matmul_fp32

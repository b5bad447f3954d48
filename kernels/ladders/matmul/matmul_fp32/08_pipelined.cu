// Rung 8: tiles are on their way while earlier ones are multiplied.
//
// Idea:   cp.async copies to shared memory without a register, and the thread goes on. With four places
//         for tiles, one is multiplied while three are on their way: the time that global memory takes
//         is hidden behind 3 x 1024 multiply-adds a thread. A place is free again as soon as all have
//         read it, so that one barrier a tile is enough.
// Gain:   waiting time; no registers for what is loaded, no instructions to store it. The sectors, the
//         loads from shared memory and their wavefronts are rung 7's.
// Cost:   33 KiB of shared memory. The tile of a is transposed, so it comes in copies of 4 bytes.
// Limit:  the beginning of each tile: behind the barrier, the first multiply-add waits for loads from
//         shared memory, and an SM has few warps to fill the gap. (Within a tile the compiler puts the
//         loads for the next k before the multiply-adds, where it has registers left.)

#include "kernels/ladders/matmul/matmul_fp32/tile_copies.cuh"
#include "kernels/ladders/matmul/matmul_fp32/warp_tile.cuh"

namespace ultra::kernels::matmul_fp32 {
namespace {

using namespace simt;

constexpr int kTile = 128;  // BM = BN; BK is kCopyDepth
constexpr int kWarpsAcross = kTile / kWarpTile;
constexpr int kThreads = kWarpsAcross * kWarpsAcross * 32;
constexpr int kStages = 4;

template <RowStart kStart>
__global__ void __launch_bounds__(kThreads)
    pipelined_kernel(const float* __restrict__ a, const float* __restrict__ b,
                     float* __restrict__ c, int rows, int columns, int depth) {
  __shared__ Stage<kTile, kTile> stages[kStages];
  const int first_row = blockIdx.y * kTile;
  const int first_column = blockIdx.x * kTile;
  const LanePlace own = lane_place(threadIdx.x, kWarpsAcross);
  TileCopier<kStart, kThreads, kTile, kTile> copier(a, b, first_row, first_column, rows, columns,
                                                    depth);
#pragma unroll
  for (int stage = 0; stage < kStages - 1; ++stage) {
    copier.copy_next(stages[stage]);
    commit_copies();
  }
  // [region pipelined]
  Sums sums;
  unsigned tile = 0;
  for (int first = 0; first < depth; first += kCopyDepth) {
    wait_copies<kStages - 2>();
    // Without it, a warp multiplies what another's copies have not brought yet, and the next line
    // overwrites the tile before, which a slower warp still multiplies.
    __syncthreads();
    copier.copy_next(stages[(tile + kStages - 1) % kStages]);
    commit_copies();
    const Stage<kTile, kTile>& stage = stages[tile % kStages];
#pragma unroll
    for (int k = 0; k < kCopyDepth; ++k) {
      Sides sides;
      load_sides(sides, &stage.a[k][own.row], &stage.b[k][own.column]);
      multiply_add(sums, sides);
    }
    ++tile;
  }
  // [/region]
  store_sums<kStart>(c, sums, first_row + own.row, first_column + own.column, rows, columns);
}

}  // namespace

template <>
void pipelined<kExecutor>(const Problem& problem, const Queue& queue) {
  launch(row_start(problem.columns) == RowStart::kAligned ? pipelined_kernel<RowStart::kAligned>
                                                          : pipelined_kernel<RowStart::kAnywhere>,
         {.name = "pipelined",
          .grid = {.x = ceil_div(problem.columns, kTile), .y = ceil_div(problem.rows, kTile)},
          .block = {.x = kThreads},
          .queue = queue},
         problem.a, problem.b, problem.c, problem.rows, problem.columns, problem.depth);
}

}  // namespace ultra::kernels::matmul_fp32

// Rung 7: a level between block and thread, the warp.
//
// Idea:   loads are the warp's: what counts is how many different floats its 32 lanes need. A warp has
//         a square of c, 64 x 64, in which lanes stand 4 x 8; a lane has 16 x 8 elements (warp_tile.cuh).
// Gain:   different floats per k: 128 for 4096 multiply-adds instead of 144 for 2048. Loads of 16 bytes
//         from shared memory: 6 for 128 multiply-adds instead of 4 for 64, wavefronts 24/128 instead of
//         16/64. Barriers: one pair for 16 k instead of 8.
// Cost:   128 registers for sums, more than 200 in all: two blocks an SM, 8 warps. A third would spill.
// Limit:  time: while a tile is loaded nothing is multiplied, but by the SM's other block.

#include "kernels/ladders/matmul/matmul_fp32/warp_tile.cuh"

namespace ultra::kernels::matmul_fp32 {
namespace {

using namespace simt;

constexpr int kTile = 128;  // BM = BN
constexpr int kDepth = 16;  // BK
constexpr int kWarpsAcross = kTile / kWarpTile;
constexpr int kThreads = kWarpsAcross * kWarpsAcross * 32;
constexpr int kLength = kTile + 4;  // of a row of the transposed tile: rung 6 says why
constexpr int kLoads = kTile * kDepth / 4 / kThreads;  // float4s of each tile that a thread loads

template <RowStart kStart>
__global__ void __launch_bounds__(kThreads)
    warp_tile_kernel(const float* __restrict__ a, const float* __restrict__ b,
                     float* __restrict__ c, int rows, int columns, int depth) {
  __shared__ __align__(16) float tile_a[kDepth][kLength];  // (k, row)
  __shared__ __align__(16) float tile_b[kDepth][kTile];    // (k, column)
  const int thread = threadIdx.x;
  const int first_row = blockIdx.y * kTile;
  const int first_column = blockIdx.x * kTile;
  const LanePlace own = lane_place(thread, kWarpsAcross);
  Sums sums;
  for (int first = 0; first < depth; first += kDepth) {
    float4 left[kLoads];
    float4 right[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      // Two lanes have the 32 bytes of a sector, a warp 16 rows of a.
      const int row = first_row + thread / 2 + i % 2 * (kTile / 2);
      const int k = first + thread % 2 * 4 + i / 2 * 8;
      const int count = row < rows ? depth - k : 0;
      left[i] = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
      if constexpr (kStart == RowStart::kAnywhere) {
        left[i] = load_singly(&a[row * depth + k], count);
      } else if (branch(count > 0)) {
        left[i] = ldg(reinterpret_cast<const float4*>(&a[row * depth + k]));
      }
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int k = first + thread / 32 + i * (kThreads / 32);
      const int column = first_column + thread % 32 * 4;
      const int count = k < depth ? columns - column : 0;
      right[i] = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
      if constexpr (kStart == RowStart::kAnywhere) {
        right[i] = load_singly(&b[k * columns + column], count);
      } else if (branch(count > 0)) {
        right[i] = ldg(reinterpret_cast<const float4*>(&b[k * columns + column]));
      }
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int row = thread / 2 + i % 2 * (kTile / 2);
      const int k = thread % 2 * 4 + i / 2 * 8;
      sts(&tile_a[k][row], left[i].x);
      sts(&tile_a[k + 1][row], left[i].y);
      sts(&tile_a[k + 2][row], left[i].z);
      sts(&tile_a[k + 3][row], left[i].w);
      const int k_b = thread / 32 + i * (kThreads / 32);
      sts(reinterpret_cast<float4*>(&tile_b[k_b][thread % 32 * 4]), right[i]);
    }
    __syncthreads();  // without it, a warp multiplies what another has not stored yet
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      Sides sides;
      load_sides(sides, &tile_a[k][own.row], &tile_b[k][own.column]);
      multiply_add(sums, sides);
    }
    __syncthreads();  // without it, the next tile overwrites what a slower warp still multiplies
  }
  store_sums<kStart>(c, sums, first_row + own.row, first_column + own.column, rows, columns);
}

}  // namespace

template <>
void warp_tile<kExecutor>(const Problem& problem, const Queue& queue) {
  launch(row_start(problem.depth, problem.columns) == RowStart::kAligned
             ? warp_tile_kernel<RowStart::kAligned>
             : warp_tile_kernel<RowStart::kAnywhere>,
         {.name = "warp_tile",
          .grid = {.x = ceil_div(problem.columns, kTile), .y = ceil_div(problem.rows, kTile)},
          .block = {.x = kThreads},
          .queue = queue},
         problem.a, problem.b, problem.c, problem.rows, problem.columns, problem.depth);
}

}  // namespace ultra::kernels::matmul_fp32

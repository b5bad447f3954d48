// Rung 3: Hopper's products of fp8. Checked on the emulator, right on an H200.
//
// Idea:   wgmma takes fp8 as it lies: in bytes, a stage of the ring is that of matmul_bf16's rung 11.
//         A group's sums begin anew in registers of their own. While one warpgroup scales them and
//         adds them to its sums (promotes them), the tensor cores multiply for the other.
// Gain:   tensor cores that are twice as fast as in bf16, and half the bytes.
// Limit:  two sets of sums, 128 registers: a tile has half the columns of bf16's, and 128 operations per
//         byte. Scales come one by one, through the first-level cache.

#include <algorithm>

#include "kernels/hopper/prepare.cuh"
#include "kernels/hopper/wgmma_e4m3.cuh"
#include "kernels/ladders/matmul/matmul_bf16/hopper/ring.cuh"
#include "kernels/ladders/matmul/matmul_bf16/tile_order.cuh"
#include "kernels/ladders/matmul/matmul_fp8/matmul_fp8.hpp"
#include "kernels/ladders/matmul/matmul_turned/by_layout.cuh"

namespace ultra::kernels::matmul_fp8 {
namespace {

using namespace hopper;
using namespace simt;
using matmul_bf16::fetch_into;
using matmul_bf16::tile_at;

constexpr int BM = 128;
constexpr int BN = 128;
constexpr int kStages = 5;
constexpr int kBand = 16;  // rows of tiles
constexpr int kConsumers = BM / kRows;
constexpr int kThreads = (1 + kConsumers) * kWarpgroup;
constexpr int kFetcherRegisters = 40;
constexpr int kMultiplierRegisters = 232;

using Shared = matmul_bf16::Ring<BM, BN, kStages>;
using Sums = float[1][BN / 2];

static_assert(kGroup == kRowUnits * 16 && kGroup == BN);

// [region promote]
// sums += group_sums x the scales of the group: those of the thread's two rows, and that of the tile's
// columns.
__device__ __forceinline__ void promote(Sums& sums, const Sums& group_sums,
                                        const float (&of_rows)[2], float of_columns) {
#pragma unroll
  for (int lower = 0; lower < 2; ++lower) {
    const float scale = of_rows[lower] * of_columns;
#pragma unroll
    for (int i = 0; i < BN / 8; ++i) {
#pragma unroll
      for (int e = 2 * lower; e < 2 * lower + 2; ++e) {
        sums[0][4 * i + e] += group_sums[0][4 * i + e] * scale;
      }
    }
  }
}

// Multiplies 64 rows of a tile by its columns over the whole depth, a group to a stage.
template <typename Left>
__device__ __forceinline__ void multiply(Shared& ring, RingPosition<kStages>& position, Sums& sums,
                                         const Problem& problem, int first_row, int row,
                                         int column) {
  const int groups = problem.depth / kGroup;
  const int own = row + first_row + threadIdx.x % kWarpgroup / 32 * 16 + threadIdx.x % 32 / 4;
  const float* const of_b = problem.b_scales + column / kGroup * groups;
  for (int group = 0; group < groups; ++group) {
    const int stage = position.stage;
    Sums group_sums = {};
    hold_in_place(group_sums);
    wait_for(ring.are_full[stage], position.parity);
    const unsigned long long a = describe(ring.a[stage] + first_row * kRowUnits);
    const unsigned long long b = describe(ring.b[stage]);
    begin_products();
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      multiply_fp8_async<Left>(group_sums[0], a + 2 * step, b + 2 * step, step > 0);
    }
    commit_products();
    float of_rows[2];  // on their way while the tensor cores multiply
#pragma unroll
    for (int lower = 0; lower < 2; ++lower) {
      const int scaled = own + lower * 8;
      of_rows[lower] =
          scaled < problem.rows
              ? ldg(&problem.a_scales[static_cast<std::ptrdiff_t>(scaled) * groups + group])
              : 0.0F;
    }
    const float of_columns = ldg(&of_b[group]);
    wait_for_products<0>();
    hold_in_place(group_sums);
    release(ring.are_empty[stage]);
    position.advance();
    promote(sums, group_sums, of_rows, of_columns);
  }
}
// [/region]

// Stores sums of 64 rows from (row, column) on, or adds to them, in fp32.
__device__ __forceinline__ void store_floats(const Problem& problem, int row, int column,
                                             const Sums& sums) {
  const int lane = threadIdx.x % 32;
  const int own = row + threadIdx.x % kWarpgroup / 32 * 16 + lane / 4;
#pragma unroll
  for (int i = 0; i < BN / 8; ++i) {
#pragma unroll
    for (int lower = 0; lower < 2; ++lower) {
      const float* const pair = &sums[0][4 * i + 2 * lower];
      matmul_turned::store_sum_pair(problem.sums, own + lower * 8, column + i * 8 + lane % 4 * 2,
                                    problem.rows, problem.columns, pair[0], pair[1], problem.adds);
    }
  }
}

template <typename Left>
__global__ void __launch_bounds__(kThreads, 1)
    wgmma_kernel(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
                 const Problem problem) {
  auto& ring = aligned_shared<Shared>();
  const int row_tiles = (problem.rows + BM - 1) / BM;
  const int column_tiles = (problem.columns + BN - 1) / BN;
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
        fetch_into(ring, position, a_map, b_map, row * BM, column * BN, problem.depth / 2);
      }
    }
  } else {
    take_registers<kMultiplierRegisters>();
    const int first_row = (warpgroup - 1) * kRows;
    for (int tile = blockIdx.x; tile < row_tiles * column_tiles; tile += gridDim.x) {
      const auto [row, column] = tile_at(tile, row_tiles, column_tiles, kBand);
      Sums sums = {};
      multiply<Left>(ring, position, sums, problem, first_row, row * BM, column * BN);
      if (problem.c == nullptr) {
        store_floats(problem, row * BM + first_row, column * BN, sums);
      } else {
        store_warpgroup_sums(problem.c, row * BM + first_row, column * BN, problem.rows,
                             problem.columns, sums);
      }
    }
  }
}

// To TMA, two elements of a byte are one of bf16.
TensorMap describe_bytes(const fp8_e4m3* matrix, int rows, int depth, int box_rows) {
  return describe_matrix(reinterpret_cast<const bf16*>(matrix), rows, depth / 2, box_rows);
}

template <typename Left>
void launch_wgmma(const Problem& problem, const Queue& queue) {
  expect_hopper("rung 1 runs on any GPU since the A100");
  const unsigned tiles = ceil_div(problem.columns, BN) * ceil_div(problem.rows, BM);
  launch(wgmma_kernel<Left>,
         {.name = "wgmma",
          .grid = {.x = std::min(tiles, count_multiprocessors(queue))},
          .block = {.x = kThreads},
          .shared_bytes = bytes_of<Shared>(),
          .queue = queue},
         describe_bytes(problem.a, problem.rows, problem.depth, BM),
         describe_bytes(problem.b, problem.columns, problem.depth, BN), problem);
}

}  // namespace

template <>
void wgmma<kExecutor>(const Problem& problem, const Queue& queue) {
  launch_wgmma<fp8_e4m3>(problem, queue);
}

template <>
void wgmma_of_gradients<kExecutor>(const Problem& problem, const Queue& queue) {
  launch_wgmma<fp8_e5m2>(problem, queue);
}

}  // namespace ultra::kernels::matmul_fp8

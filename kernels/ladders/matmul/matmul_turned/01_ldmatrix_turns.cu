// Rung 1: ldmatrix turns a factor on its way to registers.
//
// Idea:   a tile that lies along its rows is fetched as it lies, 64 elements of the depth below each
//         other. ldmatrix can transpose each 8 x 8 elements that it hands to a warp, so registers hold
//         what mma.sync wants, and nobody has written a transposed copy to memory.
// Moves:  what rung 5 of matmul_bf16 does. A transposed copy of a factor would be read and written once
//         more, at two bytes an element.
// Limit:  mma.sync, as there. Next: Hopper's wgmma, which reads either way by itself.

#include "kernels/ladders/matmul/matmul_bf16/turned_tile.cuh"
#include "kernels/ladders/matmul/matmul_turned/by_layout.cuh"

namespace ultra::kernels::matmul_turned {
namespace {

using namespace simt;
using namespace matmul_bf16::block_tile;

__device__ __forceinline__ void store(bf16* c, const Problem& problem, int row, int column,
                                      const WarpSums& sums) {
  matmul_bf16::store_sums(c, row, column, problem.rows, problem.columns, sums);
}

__device__ __forceinline__ void store(float* c, const Problem& problem, int row, int column,
                                      const WarpSums& sums) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
    for (int j = 0; j < WN / 8; ++j) {
#pragma unroll
      for (int lower = 0; lower < 2; ++lower) {
        store_sum_pair(c, row + i * 16 + lane / 4 + lower * 8, column + j * 8 + lane % 4 * 2,
                       problem.rows, problem.columns, sums[i][j][2 * lower],
                       sums[i][j][2 * lower + 1], problem.adds);
      }
    }
  }
}

template <Lies a_lies, Lies b_lies, typename Result>
__global__ void __launch_bounds__(kThreads, 2)
    ldmatrix_turns_kernel(const Problem problem, Result* __restrict__ result) {
  WarpSums sums = {};
  const int row = blockIdx.y * kTileSide;
  const int column = blockIdx.x * kTileSide;
  multiply_factors<a_lies, b_lies>(sums, dynamic_shared<uint4>(), {problem.a, row, problem.rows},
                                   {problem.b, column, problem.columns}, problem.depth);
  store(result, problem, row + warp_row(), column + warp_column(), sums);
}

}  // namespace

template <>
void ldmatrix_turns<kExecutor>(const Problem& problem, const Queue& queue) {
  launch_by_layout(problem, [&]<Lies a_lies, Lies b_lies, typename Result>(Result* result) {
    launch(ldmatrix_turns_kernel<a_lies, b_lies, Result>,
           {.name = "ldmatrix_turns",
            .grid = {.x = ceil_div(problem.columns, kTileSide),
                     .y = ceil_div(problem.rows, kTileSide)},
            .block = {.x = kThreads},
            .shared_bytes = kSharedBytes,
            .queue = queue},
           problem, result);
  });
}

}  // namespace ultra::kernels::matmul_turned

// Rung 2: a block turns a tile of 32 x 32 in shared memory.
//
// Idea:   the warps write rows of the tile and read its columns: then both the loads and the stores
//         of global memory are rows. The mirror is in shared memory, where a scattered access costs
//         less.
// Gain:   sectors per store 32 -> 4. All sectors are used: the bytes moved are the least.
// Limit:  a column of the tile has a stride of 32 words: its 32 elements lie in one bank and come
//         one after the other, 32 wavefronts per load of shared memory.

#include "kernels/ladders/basics/transpose/transpose.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::transpose {
namespace {

using namespace simt;

constexpr int kTile = 32;      // elements of a tile in each direction
constexpr int kBlockRows = 8;  // each thread moves kTile / kBlockRows elements

__global__ void tiled_kernel(const float* __restrict__ in, float* __restrict__ out, int rows,
                             int columns) {
  __shared__ float tile[kTile][kTile];
  const int first_row = blockIdx.y * kTile;
  const int first_column = blockIdx.x * kTile;
  const int x = threadIdx.x;
  const int y = threadIdx.y;
#pragma unroll
  for (int i = 0; i < kTile; i += kBlockRows) {
    const int row = first_row + y + i;
    const int column = first_column + x;
    if (branch(row < rows && column < columns)) {
      const float value = ldg(&in[static_cast<std::size_t>(row) * columns + column]);
      sts(&tile[y + i][x], value);
    }
  }
  // Without this a warp would read a column of the tile whose rows other warps have yet to write.
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kTile; i += kBlockRows) {
    const int row = first_row + x;
    const int column = first_column + y + i;
    if (branch(row < rows && column < columns)) {
      const float value = lds(&tile[x][y + i]);
      stg(&out[static_cast<std::size_t>(column) * rows + row], value);
    }
  }
}

}  // namespace

template <>
void tiled<kExecutor>(const Problem& problem, const Queue& queue) {
  launch(tiled_kernel,
         {.name = "tiled",
          .grid = {.x = ceil_div(problem.columns, kTile), .y = ceil_div(problem.rows, kTile)},
          .block = {.x = kTile, .y = kBlockRows},
          .queue = queue},
         problem.in, problem.out, problem.rows, problem.columns);
}

}  // namespace ultra::kernels::transpose

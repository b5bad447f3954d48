// Rung 3 of transpose: the same tile with rows of 33 elements.
//
// Idea:   a column of the tile then has a stride of 33 words. 33 and 32 have no common divisor, so
//         that its 32 elements lie in 32 banks. The 33rd element of a row is never used.
// Gain:   wavefronts per load of shared memory 32 -> 1, for 128 bytes of shared memory.
// Limit:  4 bytes per lane and access: many instructions, and few bytes under way at a time.

#include "kernels/ladders/basics/transpose/transpose.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::transpose {
namespace {

using namespace simt;

constexpr int kTile = 32;      // elements of a tile in each direction
constexpr int kBlockRows = 8;  // each thread moves kTile / kBlockRows elements

__global__ void padded_kernel(const float* __restrict__ in, float* __restrict__ out, int rows,
                              int columns) {
  __shared__ float tile[kTile][kTile + 1];
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
void padded<kExecutor>(const Problem& problem, const Queue& queue) {
  launch(padded_kernel,
         {.name = "padded",
          .grid = {.x = ceil_div(problem.columns, kTile), .y = ceil_div(problem.rows, kTile)},
          .block = {.x = kTile, .y = kBlockRows},
          .queue = queue},
         problem.in, problem.out, problem.rows, problem.columns);
}

}  // namespace ultra::kernels::transpose

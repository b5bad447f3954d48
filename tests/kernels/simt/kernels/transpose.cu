// A transpose through a tile of shared memory, with and without the column that avoids conflicts.

#include "kernels/simt/simt.cuh"
#include "tests/kernels/simt/kernels/kernels.hpp"

namespace ultra::simt::test {
namespace {

constexpr int kTile = 32;
constexpr int kRowsPerRound = 8;

template <int padding>
__global__ void transpose_kernel(const float* in, float* out, int rows, int columns) {
  __shared__ float tile[kTile][kTile + padding];
  const int x = threadIdx.x;
  const int y = threadIdx.y;
  const int first_row = blockIdx.y * kTile;
  const int first_column = blockIdx.x * kTile;
  for (int i = y; i < kTile; i += kRowsPerRound) {
    if (branch(first_row + i < rows && first_column + x < columns)) {
      sts(&tile[i][x], ldg(&in[(first_row + i) * columns + first_column + x]));
    }
  }
  __syncthreads();  // each thread reads what another one stored
  for (int i = y; i < kTile; i += kRowsPerRound) {
    if (branch(first_column + i < columns && first_row + x < rows)) {
      stg(&out[(first_column + i) * rows + first_row + x], lds(&tile[x][i]));
    }
  }
}

}  // namespace

template <>
void transpose<kExecutor>(TransposePadding padding, const float* in, float* out, int rows,
                          int columns, const Queue& queue) {
  const Config config{.name = "transpose",
                      .grid = {.x = ceil_div(static_cast<std::size_t>(columns), kTile),
                               .y = ceil_div(static_cast<std::size_t>(rows), kTile)},
                      .block = {.x = kTile, .y = kRowsPerRound},
                      .queue = queue};
  if (padding == TransposePadding::kNone) {
    return launch(transpose_kernel<0>, config, in, out, rows, columns);
  }
  launch(transpose_kernel<1>, config, in, out, rows, columns);
}

}  // namespace ultra::simt::test

#pragma once
/// @file
/// Tiles that are fetched in the background: rungs 5 and 6.

#include "kernels/ladders/matmul/matmul_bf16/units.cuh"
#include "kernels/simt/async_copy.cuh"

namespace ultra::kernels::matmul_bf16 {
namespace {

/// @brief Begins to copy rows [row, row + tile_rows) and elements [k, k + 64) of a matrix [rows, depth]
/// into a swizzled tile; zeros outside. The whole block takes part; depth is a multiple of 8.
template <int tile_rows, int threads>
__device__ __forceinline__ void fetch_tile(uint4* tile, const bf16* __restrict__ matrix, int row,
                                           int rows, int k, int depth) {
  constexpr int kRowsAtOnce = threads / kRowUnits;
  const int unit = threadIdx.x % kRowUnits;
  const int first_row = threadIdx.x / kRowUnits;
#pragma unroll
  for (int i = 0; i < tile_rows; i += kRowsAtOnce) {
    const int from = row + first_row + i;
    const bool is_inside = from < rows && k + unit * kUnit < depth;
    const bf16* const source =
        is_inside ? matrix + static_cast<std::ptrdiff_t>(from) * depth + k + unit * kUnit : matrix;
    copy_async<16>(&tile[swizzled(first_row + i, unit)], source, is_inside ? 16 : 0);
  }
}

}  // namespace
}  // namespace ultra::kernels::matmul_bf16

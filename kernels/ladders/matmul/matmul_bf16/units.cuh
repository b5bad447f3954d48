#pragma once
/// @file
/// What the rungs share: units of 8 bf16 (16 bytes) from global memory, where they lie in swizzled
/// shared memory, and the stores of c. Every access has its edge checked here.

#include "kernels/simt/matrix_tiles.cuh"
#include "kernels/simt/simt.cuh"
#include "kernels/simt/small_floats.cuh"

namespace ultra::kernels::matmul_bf16 {
namespace {

using namespace simt;

/// @brief bf16 per unit.
constexpr int kUnit = 8;

/// @brief Units per row of a tile in shared memory: 64 bf16, 128 bytes, all 32 banks once.
constexpr int kRowUnits = 8;

/// @brief Steps along the depth in one tile: each is 16 elements, two units, of a tensor-core product.
constexpr int kSteps = 4;

/// @brief Where unit `unit` of a row of a tile lies, in units. Eight rows below each other have the same
/// unit in eight different places, so that a column of units touches every bank once.
__device__ __forceinline__ int swizzled(int row, int unit) {
  return row * kRowUnits + (unit ^ (row % kRowUnits));
}

/// @brief Elements k to k + 7 of a row of a matrix [rows, depth]; zeros outside. One access where rows
/// begin at multiples of 16 bytes, eight elsewhere.
__device__ __forceinline__ uint4 load_unit(const bf16* __restrict__ matrix, int row, int rows,
                                           int k, int depth) {
  if (row >= rows || k >= depth) {
    return make_uint4(0, 0, 0, 0);
  }
  const bf16* const first = matrix + static_cast<std::ptrdiff_t>(row) * depth + k;
  if (depth % kUnit == 0) {
    return ldg(reinterpret_cast<const uint4*>(first));
  }
  unsigned words[4] = {};
#pragma unroll
  for (int i = 0; i < kUnit; ++i) {
    if (k + i < depth) {
      const unsigned element = ldg(reinterpret_cast<const unsigned short*>(first + i));
      words[i / 2] |= element << (i % 2 * 16);
    }
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

/// @brief Copies rows [row, row + tile_rows) and elements [k, k + 64) of a matrix [rows, depth] through
/// registers into shared memory, unit u of row r of the tile to place(r, u). The whole block takes part.
template <int tile_rows, int threads, typename Where>
__device__ __forceinline__ void copy_tile(const Where& place, const bf16* __restrict__ matrix,
                                          int row, int rows, int k, int depth) {
  const int unit = threadIdx.x % kRowUnits;
#pragma unroll
  for (int i = 0; i < tile_rows; i += threads / kRowUnits) {
    const int tile_row = threadIdx.x / kRowUnits + i;
    const uint4 values = load_unit(matrix, row + tile_row, rows, k + unit * kUnit, depth);
    sts(place(tile_row, unit), values);
  }
}

/// @brief Stores the neighbours (row, column) and (row, column + 1) of c [rows, columns], as far as they
/// exist; column is even.
__device__ __forceinline__ void store_pair(bf16* c, int row, int column, int rows, int columns,
                                           float left, float right) {
  if (row >= rows || column >= columns) {
    return;
  }
  bf16* const first = c + static_cast<std::ptrdiff_t>(row) * columns + column;
  if (columns % 2 == 0) {
    stg(reinterpret_cast<unsigned*>(first), pack_bf16(left, right));
    return;
  }
  stg(first, __float2bfloat16(left));
  if (column + 1 < columns) {
    stg(first + 1, __float2bfloat16(right));
  }
}

/// @brief Stores a warp's sums: tiles of 16 x 8, the first of which begins at (row, column) of c.
template <int row_tiles, int column_tiles>
__device__ __forceinline__ void store_sums(bf16* c, int row, int column, int rows, int columns,
                                           const float (&sums)[row_tiles][column_tiles][4]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < row_tiles; ++i) {
#pragma unroll
    for (int j = 0; j < column_tiles; ++j) {
      const int top = row + i * 16 + lane / 4;
      const int left = column + j * 8 + lane % 4 * 2;
      store_pair(c, top, left, rows, columns, sums[i][j][0], sums[i][j][1]);
      store_pair(c, top + 8, left, rows, columns, sums[i][j][2], sums[i][j][3]);
    }
  }
}

/// @brief Loads the left operands of one step: row_tiles x 16 rows from `row` on of a swizzled tile.
template <int row_tiles>
__device__ __forceinline__ void load_left(unsigned (&left)[row_tiles][4], const uint4* tile,
                                          int row, int step) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < row_tiles; ++i) {
    load_matrix_x4(left[i], &tile[swizzled(row + i * 16 + lane % 16, step * 2 + lane / 16)]);
  }
}

/// @brief Loads the right operands of one step: column_tiles x 8 rows of b, two tiles at a time.
template <int column_tiles>
__device__ __forceinline__ void load_right(unsigned (&right)[column_tiles][2], const uint4* tile,
                                           int row, int step) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int j = 0; j < column_tiles; j += 2) {
    unsigned both[4];
    const int b_row = row + j * 8 + lane / 16 * 8 + lane % 8;
    load_matrix_x4(both, &tile[swizzled(b_row, step * 2 + lane / 8 % 2)]);
    right[j][0] = both[0];
    right[j][1] = both[1];
    right[j + 1][0] = both[2];
    right[j + 1][1] = both[3];
  }
}

/// @brief Adds one step's products to a warp's sums.
template <int row_tiles, int column_tiles>
__device__ __forceinline__ void multiply_step(float (&sums)[row_tiles][column_tiles][4],
                                              const unsigned (&left)[row_tiles][4],
                                              const unsigned (&right)[column_tiles][2]) {
#pragma unroll
  for (int i = 0; i < row_tiles; ++i) {
#pragma unroll
    for (int j = 0; j < column_tiles; ++j) {
      multiply_accumulate(sums[i][j], left[i], right[j], sums[i][j]);
    }
  }
}

}  // namespace
}  // namespace ultra::kernels::matmul_bf16

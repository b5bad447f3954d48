#pragma once
/// @file
/// A warp's 64 x 64 of c, 16 x 8 of them a lane: which lane has which, its loads from the tiles in
/// shared memory, its multiply-adds and its stores. Rungs 7 to 9 share it.
///
/// A warp needs 64 + 64 floats for 4096 multiply-adds of each k; 32 threads of rung 6 need 16 + 128 for
/// 2048. Lanes are 4 x 8, each with 4 x 2 squares of 4 x 4, so that the lanes' squares are neighbours:
///
///     column of the square   0 .. 7 | 0 .. 7       (two times 32 columns)
///     row of the square      0 .. 3, four times    (four times 16 rows)

#include "kernels/ladders/matmul/matmul_fp32/quads.cuh"

namespace ultra::kernels::matmul_fp32 {
namespace {

/// @brief Rows and columns of a warp's part of c.
constexpr int kWarpTile = 64;
/// @brief Rows of c that a lane has: four times four, 16 apart.
constexpr int kLaneRows = 16;
/// @brief Columns of c that a lane has: two times four, 32 apart.
constexpr int kLaneColumns = 8;

/// @brief The first element of c that a lane has, counted from the block's first.
struct LanePlace {
  /// @brief Its row.
  int row;
  /// @brief Its column.
  int column;
};

/// @brief Where a thread's part begins in a block of `warps_across` warps in each row of warps.
///
/// Lanes n and n ^ 1 have the same columns, lanes n and n ^ 2 the same rows: for such pairs a load of 16
/// bytes a lane takes two passes instead of four. The emulator counts four, one per quarter of a warp.
/// Source: forums.developer.nvidia.com/t/77228, for compute capability 7.x; not measured here.
__device__ __forceinline__ LanePlace lane_place(int thread, int warps_across) {
  const int warp = thread / 32;
  const int lane = thread % 32;
  return {.row = warp / warps_across * kWarpTile + (lane / 16 * 2 + lane % 2) * 4,
          .column = warp % warps_across * kWarpTile + lane / 2 % 8 * 4};
}

/// @brief What a lane multiplies for one k.
struct Sides {
  /// @brief Of a, one for each of its rows.
  float left[kLaneRows];
  /// @brief Of b, one for each of its columns.
  float right[kLaneColumns];
};

/// @brief Loads a lane's sides for one k.
/// @param left   the row of the transposed tile of a for that k, from the lane's first row on.
/// @param right  the row of the tile of b for that k, from the lane's first column on.
__device__ __forceinline__ void load_sides(Sides& sides, const float* left, const float* right) {
#pragma unroll
  for (int i = 0; i < kLaneRows; i += 4) {
    const float4 quad = simt::lds(reinterpret_cast<const float4*>(&left[i * 4]));
    sides.left[i] = quad.x;
    sides.left[i + 1] = quad.y;
    sides.left[i + 2] = quad.z;
    sides.left[i + 3] = quad.w;
  }
#pragma unroll
  for (int j = 0; j < kLaneColumns; j += 4) {
    const float4 quad = simt::lds(reinterpret_cast<const float4*>(&right[j * 8]));
    sides.right[j] = quad.x;
    sides.right[j + 1] = quad.y;
    sides.right[j + 2] = quad.z;
    sides.right[j + 3] = quad.w;
  }
}

/// @brief A lane's part of c.
struct Sums {
  /// @brief (row, column), as Sides counts them.
  float at[kLaneRows][kLaneColumns] = {};
};

/// @brief Adds one k's products: 128 multiply-adds of 24 registers.
__device__ __forceinline__ void multiply_add(Sums& sums, const Sides& sides) {
#pragma unroll
  for (int i = 0; i < kLaneRows; ++i) {
#pragma unroll
    for (int j = 0; j < kLaneColumns; ++j) {
      sums.at[i][j] += sides.left[i] * sides.right[j];
    }
  }
}

/// @brief Stores a lane's part, as far as it lies in c: a warp's request covers 4 rows, 128 bytes each.
/// @param row, column  of the lane's first element in c, which is [rows, columns].
template <RowStart kStart>
__device__ __forceinline__ void store_sums(float* c, const Sums& sums, int row, int column,
                                           int rows, int columns) {
#pragma unroll
  for (int i = 0; i < kLaneRows; ++i) {
    const int own_row = row + i / 4 * 16 + i % 4;
    if (simt::branch(own_row < rows)) {
#pragma unroll
      for (int j = 0; j < kLaneColumns; j += 4) {
        const int own_column = column + j * 8;
        store_quad<kStart>(
            &c[own_row * columns + own_column],
            make_float4(sums.at[i][j], sums.at[i][j + 1], sums.at[i][j + 2], sums.at[i][j + 3]),
            own_column, columns);
      }
    }
  }
}

}  // namespace
}  // namespace ultra::kernels::matmul_fp32

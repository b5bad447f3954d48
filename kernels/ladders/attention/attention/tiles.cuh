#pragma once
/// @file
/// What the rungs of attention with tiles in shared memory have in common: how a tile lies, how it is
/// loaded, and the products of tiles that 256 threads compute in registers.
///
/// A tile has a row per query or key, kStride<columns> floats from one to the next: 4 floats of padding
/// put the vectors that 8 lanes read from 8 rows into different banks. A product of tiles has 16
/// threads in a row (threadIdx.x % 16 counts columns, threadIdx.x / 16 rows): thread (ty, tx) owns rows
/// ty * 4 + row_offset(r): 4 neighbours in each 64 rows. The 16 threads of a row are half a warp, and its
/// two halves are 4 rows apart: other banks.

#include <cmath>

#include "kernels/ladders/attention/attention/attention.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::attention {
namespace {

constexpr int kTile = 64;      // keys of a tile; also its queries, but in rungs with larger blocks
constexpr int kThreads = 256;  // of a block
constexpr int kAcross = 16;    // threads in a row of a product
constexpr int kVector = 4;     // floats of one access

// Floats from a row of a tile to the next.
template <int kColumns>
constexpr int kStride = kColumns + kVector;

// The first of a thread's rows in a product of tiles.
__device__ __forceinline__ int own_first_row() {
  return static_cast<int>(threadIdx.x) / kAcross * kVector;
}

// From it to the thread's row r.
__device__ __forceinline__ constexpr int row_offset(int r) {
  return r / kVector * kTile + r % kVector;
}

// Threads that load a row with one access each.
template <int kColumns>
constexpr int kVectorsOfRow = kColumns / kVector;

// Copies `rows` rows of `columns` floats, contiguous in global memory, into a tile of kRows x kColumns
// and fills the rest with zeros. `columns` is a multiple of 4; `rows` may exceed kRows.
template <int kRows, int kColumns>
__device__ __forceinline__ void load_tile(float* tile, const float* source, int rows, int columns) {
  constexpr int kSteps = kRows * kVectorsOfRow<kColumns> / kThreads;
  const int row = static_cast<int>(threadIdx.x) / kVectorsOfRow<kColumns>;
  const int column = static_cast<int>(threadIdx.x) % kVectorsOfRow<kColumns> * kVector;
  constexpr int kRowsOfStep = kThreads / kVectorsOfRow<kColumns>;
  // All loads first: each waits for memory, and so they wait together.
  float4 values[kSteps];
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    const int r = row + step * kRowsOfStep;
    const bool is_inside = r < rows && column < columns;
    values[step] = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    if (is_inside) {
      values[step] = simt::ldg(reinterpret_cast<const float4*>(&source[r * columns + column]));
    }
  }
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    float* const target = &tile[(row + step * kRowsOfStep) * kStride<kColumns> + column];
    simt::sts(reinterpret_cast<float4*>(target), values[step]);
  }
}

__device__ __forceinline__ float dot(const float4& a, const float4& b) {
  return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}

// sum += factor * vector
__device__ __forceinline__ void multiply_add(float4& sum, float factor, const float4& vector) {
  sum.x += factor * vector.x;
  sum.y += factor * vector.y;
  sum.z += factor * vector.z;
  sum.w += factor * vector.w;
}

__device__ __forceinline__ void multiply(float4& vector, float factor) {
  vector.x *= factor;
  vector.y *= factor;
  vector.z *= factor;
  vector.w *= factor;
}

// sums += left right^T, both tiles of kDepth columns: sums[r][c] belongs to the thread's row r of `left`
// and row tx + 16 c of `right`.
template <int kDepth, int kRows, int kColumns>
__device__ __forceinline__ void multiply_transposed(float (&sums)[kRows][kColumns],
                                                    const float* left, const float* right) {
  const float* const own_left = &left[own_first_row() * kStride<kDepth>];
  const float* const own_right = &right[threadIdx.x % kAcross * kStride<kDepth>];
#pragma unroll 4
  for (int d = 0; d < kDepth; d += kVector) {
    float4 a[kRows];
    float4 b[kColumns];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      a[r] = simt::lds(
          reinterpret_cast<const float4*>(&own_left[row_offset(r) * kStride<kDepth> + d]));
    }
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const float* const address = &own_right[c * kAcross * kStride<kDepth> + d];
      b[c] = simt::lds(reinterpret_cast<const float4*>(address));
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        sums[r][c] += dot(a[r], b[c]);
      }
    }
  }
}

// Adds row `index` of a product's right factor: sums[r][n] += factor(r) * columns tx * 4 + 64 n.
template <int kRows, int kVectors>
__device__ __forceinline__ void add_row(float4 (&sums)[kRows][kVectors],
                                        const float (&factors)[kRows], const float* row) {
#pragma unroll
  for (int n = 0; n < kVectors; ++n) {
    const float* const address = &row[n * kAcross * kVector];
    const float4 vector = simt::lds(reinterpret_cast<const float4*>(address));
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      multiply_add(sums[r][n], factors[r], vector);
    }
  }
}

// sums += weights values, a tile [.., kTile] times a tile [kTile, kColumns]: sums[r][n] belongs to
// the thread's row r of `weights` and columns tx * 4 + 64 n of `values`.
template <int kColumns, int kRows>
__device__ __forceinline__ void multiply(float4 (&sums)[kRows][kColumns / 64], const float* weights,
                                         const float* values) {
  const float* const own_weights = &weights[own_first_row() * kStride<kTile>];
  const float* const own_values = &values[threadIdx.x % kAcross * kVector];
#pragma unroll 2
  for (int j = 0; j < kTile; j += kVector) {
    float factors[kVector][kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float* const address = &own_weights[row_offset(r) * kStride<kTile> + j];
      const float4 four = simt::lds(reinterpret_cast<const float4*>(address));
      factors[0][r] = four.x;
      factors[1][r] = four.y;
      factors[2][r] = four.z;
      factors[3][r] = four.w;
    }
#pragma unroll
    for (int step = 0; step < kVector; ++step) {
      add_row(sums, factors[step], &own_values[(j + step) * kStride<kColumns>]);
    }
  }
}

// The largest and the sum over the 16 threads that share rows; all of a warp call them.
__device__ __forceinline__ float max_over_row(float value) {
#pragma unroll
  for (int distance = kAcross / 2; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(simt::kAllLanes, value, distance));
  }
  return value;
}

__device__ __forceinline__ float sum_over_row(float value) {
#pragma unroll
  for (int distance = kAcross / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(simt::kAllLanes, value, distance);
  }
  return value;
}

// Stores a thread's part of a row: columns tx * 4 + 64 n, those below `columns`.
template <int kVectors>
__device__ __forceinline__ void store_row(float* row, const float4 (&values)[kVectors],
                                          float factor, int columns) {
#pragma unroll
  for (int n = 0; n < kVectors; ++n) {
    const int column = static_cast<int>(threadIdx.x) % kAcross * kVector + n * kAcross * kVector;
    if (column < columns) {
      const float4 vector = make_float4(values[n].x * factor, values[n].y * factor,
                                        values[n].z * factor, values[n].w * factor);
      simt::stg(reinterpret_cast<float4*>(&row[column]), vector);
    }
  }
}

}  // namespace
}  // namespace ultra::kernels::attention

#pragma once
/// @file
/// Swizzled tiles of attention_bf16, and their products with ldmatrix.
///
/// Chunk c (16 bytes) of row r lies at place c ^ (r % 8) of its row. The 8 rows of a matrix that ldmatrix
/// loads, at the same chunk, are then in 8 different groups of 4 banks; so are the chunks that 8
/// neighbouring threads store to a row.

#include "kernels/ladders/attention/attention_bf16/warp_attention.cuh"

namespace ultra::kernels::attention_bf16 {
namespace {

// Where chunk `chunk` of row `row` lies. Unsigned: the remainder is then an instruction.
template <int kHeadDim>
__device__ __forceinline__ unsigned swizzled_index(unsigned row, unsigned chunk) {
  return row * kHeadDim + (chunk ^ row % 8) * kChunk;
}

// What this lane brings to ldmatrix: chunk `lane_chunk` (0 or 1) of row `lane_row` of the 16 x 16 square
// at `row` and `column`, which are multiples of 16. Equal to tile[swizzled_index(row + lane_row, column / 8
// + lane_chunk)], written so that what depends on the lane is one number for all squares in a column.
template <int kHeadDim, typename T>
__device__ __forceinline__ const T* address_of_lane(const T* tile, int row, int column,
                                                    unsigned lane_row, unsigned lane_chunk) {
  const unsigned chunk = static_cast<unsigned>(column / kChunk) ^ (lane_chunk ^ lane_row % 8);
  return &tile[lane_row * kHeadDim + chunk * kChunk] + row * kHeadDim;
}

// Four matrices for 16 rows and 16 columns, row tiles first: of queries they are mma's left factor; of
// values, transposed, right factors for two neighbouring tiles of columns.
template <int kHeadDim, typename T>
__device__ __forceinline__ const T* address_by_rows(const T* tile, int row, int column) {
  const unsigned lane = threadIdx.x % 32;
  return address_of_lane<kHeadDim>(tile, row, column, lane % 16, lane / 16);
}

// The same with column tiles first: of keys they are right factors for two neighbouring tiles of keys.
template <int kHeadDim, typename T>
__device__ __forceinline__ const T* address_by_columns(const T* tile, int row, int column) {
  const unsigned lane = threadIdx.x % 32;
  return address_of_lane<kHeadDim>(tile, row, column, lane / 16 * 8 + lane % 8, lane / 8 % 2);
}

// scores = queries keys^T
template <int kHeadDim, int kTilesOfRows, int kTiles, typename T>
__device__ __forceinline__ void multiply_queries(float (&scores)[kTilesOfRows][kTiles][4],
                                                 const T* q_tile, const T* k_tile) {
#pragma unroll
  for (int d = 0; d < kHeadDim; d += 16) {
    unsigned queries[kTilesOfRows][4];
#pragma unroll
    for (int m = 0; m < kTilesOfRows; ++m) {
      simt::load_matrix_x4(queries[m], address_by_rows<kHeadDim>(
                                           q_tile, first_warp_row<kTilesOfRows>() + m * 16, d));
    }
#pragma unroll
    for (int n = 0; n < kTiles; n += 2) {
      unsigned keys[4];
      simt::load_matrix_x4(keys, address_by_columns<kHeadDim>(k_tile, n * 8, d));
      const unsigned first[2] = {keys[0], keys[1]};
      const unsigned second[2] = {keys[2], keys[3]};
#pragma unroll
      for (int m = 0; m < kTilesOfRows; ++m) {
        simt::multiply_accumulate<T>(scores[m][n], queries[m], first, scores[m][n]);
        simt::multiply_accumulate<T>(scores[m][n + 1], queries[m], second, scores[m][n + 1]);
      }
    }
  }
}

// output += weights values
template <int kHeadDim, int kTilesOfRows, int kSteps, typename T>
__device__ __forceinline__ void multiply_weights(float (&output)[kTilesOfRows][kHeadDim / 8][4],
                                                 const unsigned (&weights)[kTilesOfRows][kSteps][4],
                                                 const T* v_tile) {
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
#pragma unroll
    for (int n = 0; n < kHeadDim / 8; n += 2) {
      unsigned values[4];
      simt::load_matrix_x4_transposed(values, address_by_rows<kHeadDim>(v_tile, step * 16, n * 8));
      const unsigned first[2] = {values[0], values[1]};
      const unsigned second[2] = {values[2], values[3]};
#pragma unroll
      for (int m = 0; m < kTilesOfRows; ++m) {
        simt::multiply_accumulate<T>(output[m][n], weights[m][step], first, output[m][n]);
        simt::multiply_accumulate<T>(output[m][n + 1], weights[m][step], second, output[m][n + 1]);
      }
    }
  }
}

// A warp's work on a tile of keys and values that is complete.
template <int kHeadDim>
__device__ __forceinline__ void attend(float (&output)[kRowTiles][kHeadDim / 8][4],
                                       OnlineSoftmax& softmax, const bf16* q_tile,
                                       const bf16* k_tile, const bf16* v_tile, const Shape& shape,
                                       int query, int key) {
  Scores<kRowTiles, kKeys<kHeadDim>> scores = {};
  multiply_queries<kHeadDim>(scores, q_tile, k_tile);
  if (key + kKeys < kHeadDim >> keys_of_query(shape, query)) {
    mask(scores, shape, query, key);
  }
  softmax.add(scores, output, shape.scale * kLog2E);
  Weights<kRowTiles, kKeys<kHeadDim>> weights;
  pack_weights(weights, scores);
  multiply_weights<kHeadDim>(output, weights, v_tile);
}

}  // namespace
}  // namespace ultra::kernels::attention_bf16

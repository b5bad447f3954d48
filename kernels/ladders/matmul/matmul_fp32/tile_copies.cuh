#pragma once
/// @file
/// How the tiles of a and b get into shared memory by cp.async. Rungs 8 and 9 share it.
///
/// cp.async moves bytes as they are: to transpose the tile of a, each element is a copy of its own, 4
/// bytes, which needs no aligned rows. The tile of b is copied as it lies, 16 bytes a lane.

#include "kernels/ladders/matmul/matmul_fp32/quads.cuh"
#include "kernels/simt/async_copy.cuh"

namespace ultra::kernels::matmul_fp32 {
namespace {

/// @brief BK of the rungs that copy.
constexpr int kCopyDepth = 8;

/// @brief One tile of a, transposed, and one of b.
template <int kRows, int kColumns>
struct Stage {
  /// @brief (k, row). Rows are 4 longer: the 8 k x 4 rows that a warp copies lie in 32 banks.
  __align__(16) float a[kCopyDepth][kRows + 4];
  /// @brief (k, column)
  __align__(16) float b[kCopyDepth][kColumns];
};

/// @brief Copies one tile after the other; each thread has its part of all of them.
template <RowStart kStart, int kThreads, int kRows, int kColumns>
class TileCopier {
 public:
  /// @brief Begins with the first tile for the block whose c begins at `first_row`, `first_column`.
  __device__ __forceinline__ TileCopier(const float* a, const float* b, int first_row,
                                        int first_column, int rows, int columns, int depth)
      : row_a_(threadIdx.x / kCopyDepth),
        k_a_(threadIdx.x % kCopyDepth),
        k_b_(threadIdx.x / kQuadsAcross),
        column_b_(threadIdx.x % kQuadsAcross * 4),
        row_length_a_(depth),
        row_length_b_(columns),
        rows_left_(rows - first_row - row_a_),
        columns_left_(columns - first_column - column_b_),
        depth_left_(depth),
        next_a_(&a[(first_row + row_a_) * depth + k_a_]),
        next_b_(&b[k_b_ * columns + first_column + column_b_]) {}

  /// @brief Begins to copy the next tile, zeros where it leaves the matrices; after the last k,
  /// too, so that callers need not count.
  __device__ __forceinline__ void copy_next(Stage<kRows, kColumns>& stage) {
    const int rows_left = k_a_ < depth_left_ ? rows_left_ : 0;
#pragma unroll
    for (int i = 0; i < kCopiesA; ++i) {
      simt::copy_async<4>(&stage.a[k_a_][row_a_ + i * kRowsPerPass],
                          &next_a_[i * kRowsPerPass * row_length_a_],
                          i * kRowsPerPass < rows_left ? 4 : 0);
    }
#pragma unroll
    for (int i = 0; i < kCopiesB; ++i) {
      const int columns_left = k_b_ + i * kDepthPerPass < depth_left_ ? columns_left_ : 0;
      float* const to = &stage.b[k_b_ + i * kDepthPerPass][column_b_];
      const float* const from = &next_b_[i * kDepthPerPass * row_length_b_];
      if constexpr (kStart == RowStart::kAligned) {
        simt::copy_async<16>(to, from, columns_left > 0 ? 16 : 0);
      } else {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          simt::copy_async<4>(&to[j], &from[j], j < columns_left ? 4 : 0);
        }
      }
    }
    next_a_ += kCopyDepth;
    next_b_ += kCopyDepth * row_length_b_;
    depth_left_ -= kCopyDepth;
  }

 private:
  static constexpr int kQuadsAcross = kColumns / 4;
  static constexpr int kRowsPerPass = kThreads / kCopyDepth;
  static constexpr int kDepthPerPass = kThreads / kQuadsAcross;
  static constexpr int kCopiesA = kRows / kRowsPerPass;
  static constexpr int kCopiesB = kCopyDepth / kDepthPerPass;

  int row_a_;         // of the tile: what this thread copies first
  int k_a_;           // of the tile
  int k_b_;           // of the tile
  int column_b_;      // of the tile
  int row_length_a_;  // of a
  int row_length_b_;  // of b
  int rows_left_;     // of a, from the thread's first
  int columns_left_;  // of b, from the thread's first
  int depth_left_;    // from the tile's first k
  const float* next_a_;
  const float* next_b_;
};

}  // namespace
}  // namespace ultra::kernels::matmul_fp32

#pragma once
/// @file
/// The online softmax of the rungs from 5 on, in powers of 2: a thread's scores of a tile become weights,
/// and what was summed before shrinks where a larger score came.

#include <cmath>

#include "kernels/ladders/attention/attention/tiles.cuh"
#include "kernels/simt/fast_math.cuh"

namespace ultra::kernels::attention {
namespace {

constexpr float kLog2E = 1.44269504F;    // log2(e)
constexpr float kLogOf2 = 0.693147181F;  // log(2)

// How many keys a query sees.
__device__ __forceinline__ int keys_of_query(const Shape& shape, int query) {
  return shape.causal && query < shape.seq_len ? query + 1 : shape.seq_len;
}

// Sets the scores of keys that a row does not see to -inf; keys_of(r): how many row r sees.
template <int kRows, int kColumns, typename KeysOf>
__device__ __forceinline__ void mask(float (&scores)[kRows][kColumns], int first_key,
                                     const KeysOf& keys_of) {
  const int own_key = first_key + static_cast<int>(threadIdx.x) % kAcross;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int keys = keys_of(r);
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      scores[r][c] = own_key + c * kAcross < keys ? scores[r][c] : -INFINITY;
    }
  }
}

// Stores a thread's part of a product where multiply() reads weights.
template <int kRows, int kColumns>
__device__ __forceinline__ void store_weights(float* weights,
                                              const float (&values)[kRows][kColumns]) {
  const int first_column = static_cast<int>(threadIdx.x) % kAcross;
  float* const own = &weights[own_first_row() * kStride<kTile> + first_column];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      simt::sts(&own[row_offset(r) * kStride<kTile> + c * kAcross], values[r][c]);
    }
  }
}

// The state of a thread's rows: the largest score, and the sum of weights over this thread's columns.
// Every row sees a key of the first tile that is added; a row's largest score is finite from then on.
template <int kRows>
class OnlineSoftmax {
 public:
  __device__ __forceinline__ OnlineSoftmax() {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      largest_[r] = -INFINITY;
      sum_[r] = 0.0F;
    }
  }

  // Turns raw scores into weights 2^(factor score - largest), and shrinks the output so far.
  template <int kColumns, int kVectors>
  __device__ __forceinline__ void add(float (&scores)[kRows][kColumns],
                                      float4 (&output)[kRows][kVectors], float factor) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      float largest = scores[r][0];
#pragma unroll
      for (int c = 1; c < kColumns; ++c) {
        largest = fmaxf(largest, scores[r][c]);
      }
      const float before = largest_[r];
      largest_[r] = fmaxf(before, max_over_row(largest) * factor);
      const float shrink = simt::exp2_flushed(before - largest_[r]);
      sum_[r] *= shrink;
#pragma unroll
      for (int n = 0; n < kVectors; ++n) {
        multiply(output[r][n], shrink);
      }
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        scores[r][c] = simt::exp2_flushed(scores[r][c] * factor - largest_[r]);
        sum_[r] += scores[r][c];
      }
    }
  }

  // The sum of a row's weights; all threads of a warp call it.
  __device__ __forceinline__ float sum_of_row(int r) const { return sum_over_row(sum_[r]); }

  // The logarithm of the softmax's denominator.
  __device__ __forceinline__ float lse_of_row(int r, float sum) const {
    return largest_[r] * kLogOf2 + logf(sum);
  }

 private:
  float largest_[kRows];  // times factor
  float sum_[kRows];
};

}  // namespace
}  // namespace ultra::kernels::attention

#pragma once
/// @file
/// A row's elements in the registers of the threads that share it: thread t of T takes the vectors
/// t, t + T, t + 2 T, ... of four elements.
///
/// Where a row is not a multiple of 4 elements, rows do not begin at a multiple of 16 bytes; the
/// thread then takes single elements, t, t + T, ..., so that its warp still accesses neighbours.

#include <cfloat>
#include <cmath>

#include "kernels/simt/simt.cuh"

namespace ultra::kernels::softmax {
namespace {

/// @brief Elements of an access.
constexpr int kVector = 4;

/// @brief One thread's share of a row of at most kVectors * kVector * threads elements.
template <int kVectors, bool kIsAligned>
struct RowPart {
  /// @brief The elements; what the row does not have is -FLT_MAX, whose exponential is 0.
  float values[kVectors * kVector];

  /// @brief Loads the share of thread `thread` of `threads`.
  __device__ __forceinline__ void load(const float* row, int columns, int thread, int threads) {
    if constexpr (kIsAligned) {
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        const int column = kVector * (thread + v * threads);
        float4 vector = make_float4(-FLT_MAX, -FLT_MAX, -FLT_MAX, -FLT_MAX);
        if (simt::branch(column < columns)) {
          vector = simt::ldg(reinterpret_cast<const float4*>(&row[column]));
        }
        values[kVector * v] = vector.x;
        values[kVector * v + 1] = vector.y;
        values[kVector * v + 2] = vector.z;
        values[kVector * v + 3] = vector.w;
      }
    } else {
#pragma unroll
      for (int i = 0; i < kVectors * kVector; ++i) {
        const int column = thread + i * threads;
        values[i] = simt::branch(column < columns) ? simt::ldg(&row[column]) : -FLT_MAX;
      }
    }
  }

  /// @brief The largest element of the share.
  [[nodiscard]] __device__ __forceinline__ float largest() const {
    float result = values[0];
#pragma unroll
    for (int i = 1; i < kVectors * kVector; ++i) {
      result = fmaxf(result, values[i]);
    }
    return result;
  }

  /// @brief Replaces each element by exp(element - row_largest), and returns their sum.
  [[nodiscard]] __device__ __forceinline__ float exponentiate(float row_largest) {
    float sum = 0.0F;
#pragma unroll
    for (int i = 0; i < kVectors * kVector; ++i) {
      values[i] = expf(values[i] - row_largest);
      sum += values[i];
    }
    return sum;
  }

  /// @brief Stores the share, each element times `factor`.
  __device__ __forceinline__ void store(float* row, int columns, int thread, int threads,
                                        float factor) const {
    if constexpr (kIsAligned) {
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        const int column = kVector * (thread + v * threads);
        if (simt::branch(column < columns)) {
          const float4 vector =
              make_float4(values[kVector * v] * factor, values[kVector * v + 1] * factor,
                          values[kVector * v + 2] * factor, values[kVector * v + 3] * factor);
          simt::stg(reinterpret_cast<float4*>(&row[column]), vector);
        }
      }
    } else {
#pragma unroll
      for (int i = 0; i < kVectors * kVector; ++i) {
        const int column = thread + i * threads;
        if (simt::branch(column < columns)) {
          simt::stg(&row[column], values[i] * factor);
        }
      }
    }
  }
};

}  // namespace
}  // namespace ultra::kernels::softmax

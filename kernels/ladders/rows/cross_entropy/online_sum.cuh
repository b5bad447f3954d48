#pragma once
/// @file
/// A sum of exponentials that is built in one pass, without knowing the maximum before.
///
/// Source: Milakov & Gimelshein 2018, "Online normalizer calculation for softmax", arXiv
/// 1805.02867, algorithm 3.

#include "kernels/simt/pack.cuh"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::cross_entropy {
namespace {

/// @brief The sum of exp(x) over some numbers x, as sum x exp(highest): nothing overflows.
struct OnlineSum {
  /// @brief The largest x; -infinity before the first.
  float highest;
  /// @brief The sum of exp(x - highest).
  float sum;
};

/// @brief Floats of shared memory that merge_block() needs.
constexpr int kFloatsOfMerge = 64;

/// @brief Accesses that a thread has in flight at once: a loop that waits for each load before it
/// asks for the next one does not keep the memory busy.
constexpr int kAtOnce = 4;

/// @brief What stands for logits beyond the row's end: they add nothing to a sum.
template <int width>
__device__ __forceinline__ simt::Pack<float, width> masked() {
  simt::Pack<float, width> values;
#pragma unroll
  for (int i = 0; i < width; ++i) {
    values.values[i] = -INFINITY;
  }
  return values;
}

/// @brief The sum over nothing.
__device__ __forceinline__ OnlineSum nothing() { return {-INFINITY, 0.0F}; }

/// @brief What is subtracted before exp(). Where nothing came yet, or masked logits of -infinity
/// only, it is not the highest number: a difference of infinities would be no number.
__device__ __forceinline__ float shift_of(float highest) {
  return highest == -INFINITY ? 0.0F : highest;
}

/// @brief The sum over the numbers of both.
__device__ __forceinline__ OnlineSum merge(OnlineSum left, OnlineSum right) {
  const float highest = fmaxf(left.highest, right.highest);
  const float shift = shift_of(highest);
  return {highest, left.sum * expf(left.highest - shift) + right.sum * expf(right.highest - shift)};
}

/// @brief The sum over some numbers more: scaled once for all of them.
template <int width>
__device__ __forceinline__ OnlineSum add(OnlineSum before, const simt::Pack<float, width>& more) {
  float highest = before.highest;
#pragma unroll
  for (int i = 0; i < width; ++i) {
    highest = fmaxf(highest, more.values[i]);
  }
  const float shift = shift_of(highest);
  float sum = before.sum * expf(before.highest - shift);
#pragma unroll
  for (int i = 0; i < width; ++i) {
    sum += expf(more.values[i] - shift);
  }
  return {highest, sum};
}

/// @brief The sum over the block's threads, in every thread: by shuffles, then over the warps.
/// @param of_warps  [kFloatsOfMerge] of shared memory. blockDim.x is a multiple of 32.
__device__ __forceinline__ OnlineSum merge_block(OnlineSum mine, float* of_warps) {
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  for (int distance = 16; distance > 0; distance /= 2) {
    const float highest = __shfl_xor_sync(simt::kAllLanes, mine.highest, distance);
    const float sum = __shfl_xor_sync(simt::kAllLanes, mine.sum, distance);
    mine = merge(mine, {highest, sum});
  }
  if (lane == 0) {
    simt::sts(&of_warps[warp], mine.highest);
    simt::sts(&of_warps[32 + warp], mine.sum);
  }
  __syncthreads();  // else a warp reads sums that others have not written
  OnlineSum total = nothing();
  if (lane < static_cast<int>(blockDim.x / 32)) {
    total.highest = simt::lds(&of_warps[lane]);
    total.sum = simt::lds(&of_warps[32 + lane]);
  }
  for (int distance = 16; distance > 0; distance /= 2) {
    const float highest = __shfl_xor_sync(simt::kAllLanes, total.highest, distance);
    const float sum = __shfl_xor_sync(simt::kAllLanes, total.sum, distance);
    total = merge(total, {highest, sum});
  }
  return total;
}

}  // namespace
}  // namespace ultra::kernels::cross_entropy

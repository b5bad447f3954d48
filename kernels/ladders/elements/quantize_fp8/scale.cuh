#pragma once
/// @file
/// A group's scale, for every rung.

#include "kernels/ladders/elements/quantize_fp8/quantize_fp8.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::quantize_fp8 {
namespace {

/// @brief The scale of a group whose largest magnitude this is.
__device__ __forceinline__ float scale_of(float largest) {
  return largest == 0.0F ? 1.0F : largest / kLargest;
}

/// @brief The nearest fp8 of x / scale. A quotient that rounds to more than 448 becomes 448.
__device__ __forceinline__ simt::fp8_e4m3 quantized(simt::bf16 x, float scale) {
  return simt::fp8_e4m3(static_cast<float>(x) / scale);
}

/// @brief The largest value of `lanes` neighbouring lanes, in all of them. The whole warp calls it.
template <int lanes>
__device__ __forceinline__ float largest_of(float value) {
#pragma unroll
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(simt::kAllLanes, value, distance));
  }
  return value;
}

}  // namespace
}  // namespace ultra::kernels::quantize_fp8

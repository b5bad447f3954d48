#pragma once
/// @file
/// Reductions over a whole warp by shuffles: five rounds, then every lane has the result. The same
/// source on every executor; simt.cuh includes it.

namespace ultra::simt {

/// @brief Every lane of a warp.
constexpr unsigned kAllLanes = 0xffffffffU;

// [region warp_sum]
/// @brief The sum over the lanes of a warp, in every lane. All 32 lanes call it.
template <typename T>
__device__ __forceinline__ T warp_sum(T value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  return value;
}
// [/region]

/// @brief The largest value over the lanes of a warp, in every lane. All 32 lanes call it.
template <typename T>
__device__ __forceinline__ T warp_max(T value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    const T other = __shfl_xor_sync(kAllLanes, value, distance);
    value = value < other ? other : value;
  }
  return value;
}

}  // namespace ultra::simt

#pragma once
/// @file
/// The rotation of several pairs at once.

#include "kernels/simt/pack.cuh"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::rope {
namespace {

/// @brief Turns the pairs (a, b) by their angles.
template <int width>
__device__ __forceinline__ void rotate(simt::Pack<float, width>& a, simt::Pack<float, width>& b,
                                       const simt::Pack<float, width>& cosine,
                                       const simt::Pack<float, width>& sine, float direction) {
#pragma unroll
  for (int i = 0; i < width; ++i) {
    const float signed_sine = direction * sine.values[i];
    const float first = a.values[i] * cosine.values[i] - b.values[i] * signed_sine;
    b.values[i] = b.values[i] * cosine.values[i] + a.values[i] * signed_sine;
    a.values[i] = first;
  }
}

}  // namespace
}  // namespace ultra::kernels::rope

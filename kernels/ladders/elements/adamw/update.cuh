#pragma once
/// @file
/// The update of parameters whose state is in registers.

#include <cmath>

#include "kernels/ladders/elements/adamw/adamw.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::adamw {
namespace {

/// @brief Elements of an access of 16 bytes.
constexpr int kVector = 4;

/// @brief Updates one parameter and its moments.
///
/// Its sums are fused in so many words: a compiler that chose twice, for a value to store and for one to
/// round, would round another number than it stores.
__device__ __forceinline__ void update_element(float& value, float gradient, float& first_moment,
                                               float& second_moment, const Constants& c) {
  const float g = gradient * c.gradient_scale;
  first_moment = fmaf(c.keep1, g, c.beta1 * first_moment);
  second_moment = fmaf(c.keep2 * g, g, c.beta2 * second_moment);
  const float denominator = fmaf(sqrtf(second_moment), c.root_scale, c.epsilon);
  value = fmaf(c.decay, value, -c.step_size * first_moment / denominator);
}

/// @brief Loads, updates and stores element `i` of a tensor.
__device__ __forceinline__ void update_single(const Tensor& tensor, int i, const Constants& c) {
  float value = simt::ldg(&tensor.value[i]);
  const float gradient = simt::ldg(&tensor.gradient[i]);
  float first_moment = simt::ldg(&tensor.first_moment[i]);
  float second_moment = simt::ldg(&tensor.second_moment[i]);
  update_element(value, gradient, first_moment, second_moment, c);
  simt::stg(&tensor.value[i], value);
  simt::stg(&tensor.first_moment[i], first_moment);
  simt::stg(&tensor.second_moment[i], second_moment);
}

/// @brief Updates the elements `i`, ..., `i` + 3: four at a time, or as many as there are.
__device__ __forceinline__ void update_vector(const Tensor& tensor, int i, const Constants& c) {
  if (simt::branch(i + kVector > tensor.n)) {
    for (; i < tensor.n; ++i) {
      update_single(tensor, i, c);
    }
    return;
  }
  float4 value = simt::ldg(reinterpret_cast<const float4*>(&tensor.value[i]));
  const float4 gradient = simt::ldg(reinterpret_cast<const float4*>(&tensor.gradient[i]));
  float4 first = simt::ldg(reinterpret_cast<const float4*>(&tensor.first_moment[i]));
  float4 second = simt::ldg(reinterpret_cast<const float4*>(&tensor.second_moment[i]));
  update_element(value.x, gradient.x, first.x, second.x, c);
  update_element(value.y, gradient.y, first.y, second.y, c);
  update_element(value.z, gradient.z, first.z, second.z, c);
  update_element(value.w, gradient.w, first.w, second.w, c);
  simt::stg(reinterpret_cast<float4*>(&tensor.value[i]), value);
  simt::stg(reinterpret_cast<float4*>(&tensor.first_moment[i]), first);
  simt::stg(reinterpret_cast<float4*>(&tensor.second_moment[i]), second);
}

}  // namespace
}  // namespace ultra::kernels::adamw

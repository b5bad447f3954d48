#pragma once
/// @file
/// The gradients of one element, for every rung.

#include "kernels/simt/simt.cuh"

namespace ultra::kernels::swiglu_backward {
namespace {

/// @brief 1 / (1 + exp(-x)).
__device__ __forceinline__ float sigmoid(float x) { return 1.0F / (1.0F + expf(-x)); }

/// @brief d_product silu(gate).
__device__ __forceinline__ float d_up_of(float d_product, float gate, float sigmoid_of_gate) {
  return d_product * (gate * sigmoid_of_gate);
}

/// @brief d_product up times the derivative of silu at gate.
__device__ __forceinline__ float d_gate_of(float d_product, float gate, float up,
                                           float sigmoid_of_gate) {
  return d_product * up * sigmoid_of_gate * (1.0F + gate * (1.0F - sigmoid_of_gate));
}

}  // namespace
}  // namespace ultra::kernels::swiglu_backward

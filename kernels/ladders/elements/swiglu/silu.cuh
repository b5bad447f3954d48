#pragma once
/// @file
/// silu, for every rung.

#include "kernels/simt/simt.cuh"

namespace ultra::kernels::swiglu {
namespace {

/// @brief x / (1 + exp(-x)). Where exp(-x) overflows, the quotient is a zero, as it should be.
__device__ __forceinline__ float silu(float x) { return x / (1.0F + expf(-x)); }

}  // namespace
}  // namespace ultra::kernels::swiglu

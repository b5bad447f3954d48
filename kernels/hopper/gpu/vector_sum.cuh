#pragma once
/// @file
/// red of four floats on a GPU. kernels/hopper/emulator/vector_sum.hpp has the same for the emulator.

#include <cuda_runtime.h>

namespace ultra::kernels::hopper {
namespace {

/// @brief Adds to four floats of global memory, each of them atomically; sums is a multiple of 16.
__device__ __forceinline__ void add_vector(float4* sums, const float4& values) {
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(sums),
               "f"(values.x), "f"(values.y), "f"(values.z), "f"(values.w)
               : "memory");
}

}  // namespace
}  // namespace ultra::kernels::hopper

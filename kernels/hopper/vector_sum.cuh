#pragma once
/// @file
/// Four neighbouring sums in global memory at once, which only Hopper has: add_vector(), on every
/// executor. Source: PTX ISA, "red" with .v4.f32.

#if defined(__CUDACC__)

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

#else

#include "kernels/simt/simt.cuh"

namespace ultra::kernels::hopper {
namespace {

/// @brief Adds to four floats of global memory, each of them atomically.
inline void add_vector(float4* sums, const float4& values, const char* file = __builtin_FILE(),
                       int line = __builtin_LINE()) {
  const float parts[4] = {values.x, values.y, values.z, values.w};
  for (int i = 0; i < 4; ++i) {
    atomicAdd(reinterpret_cast<float*>(sums) + i, parts[i], file, line);
  }
}

}  // namespace
}  // namespace ultra::kernels::hopper

#endif

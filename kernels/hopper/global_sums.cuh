#pragma once
/// @file
/// Sums in global memory to which blocks add in turns: four neighbours at once, which only Hopper can,
/// and whose turn it is; on every executor. Source: PTX ISA, "red" with .v4.f32, "ld" with .acquire and
/// "red" with .release: what other threads of a block have added counts, too, where a barrier of the
/// block lies between.

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

/// @brief Waits until `turns` blocks have passed it on; what they added before is seen behind this.
__device__ __forceinline__ void wait_for_turn(const unsigned* turn, unsigned turns) {
  unsigned found = 0;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(found) : "l"(turn) : "memory");
  } while (found != turns);
}

/// @brief Passes the turn on, with what this block has added.
__device__ __forceinline__ void pass_turn(unsigned* turn) {
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(turn) : "memory");
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

/// @brief Waits until `turns` blocks have passed it on. Blocks run one after the other here: a wrong
/// number never ends.
inline void wait_for_turn(const unsigned* turn, unsigned turns) {
  while (simt::ldg(turn) != turns) {
  }
}

/// @brief Passes the turn on, with what this block has added.
inline void pass_turn(unsigned* turn, const char* file = __builtin_FILE(),
                      int line = __builtin_LINE()) {
  atomicAdd(turn, 1U, file, line);
}

}  // namespace
}  // namespace ultra::kernels::hopper

#endif

#pragma once
/// @file
/// red of four floats for the emulator, which counts four atomics. kernels/hopper/gpu/vector_sum.cuh has
/// the same for a GPU.

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

#pragma once
/// @file
/// A status of the CUDA run time as an exception.

#include <cuda_runtime.h>

namespace ultra::simt::gpu {

/// @brief Throws for a call of the CUDA run time that failed; `what` names the call or the kernel.
/// @throws SimtError (Fault::kCuda)
[[noreturn]] void refuse(cudaError_t status, const char* what);

/// @brief Throws when a call of the CUDA run time failed; `what` names the call or the kernel.
/// @throws SimtError (Fault::kCuda)
inline void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) {
    refuse(status, what);
  }
}

}  // namespace ultra::simt::gpu

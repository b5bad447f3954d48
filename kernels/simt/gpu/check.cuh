#pragma once
/// @file
/// A status of the CUDA run time as an exception.

#include <cuda_runtime.h>

#include <string>

#include "kernels/simt/error.hpp"

namespace ultra::simt::gpu {

/// @brief Throws when a call of the CUDA run time failed; `what` names the call.
/// @throws SimtError (Fault::kCuda)
inline void check(cudaError_t status, const std::string& what) {
  if (status != cudaSuccess) {
    throw SimtError(Fault::kCuda, what + ": " + cudaGetErrorString(status) +
                                      ". Hint: does nvidia-smi work in this shell?");
  }
}

}  // namespace ultra::simt::gpu

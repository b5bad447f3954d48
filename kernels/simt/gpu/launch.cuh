#pragma once
/// @file
/// launch() on a GPU.

#include <cuda_runtime.h>

#include <utility>

#include "kernels/simt/config.hpp"
#include "kernels/simt/gpu/check.cuh"
#include "kernels/simt/side.hpp"

namespace ultra::simt {

/// @brief Queues a kernel for every thread of the grid; `arguments` become its parameters. Nothing is
/// counted: Nsight Compute does that.
/// @throws SimtError when the launch is wrong or the CUDA run time refuses it; what a thread does
/// wrong shows at the next download.
template <Side side = kSide, typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), const Config& config, Arguments&&... arguments) {
  constexpr std::size_t kAlwaysGranted = std::size_t{48} * 1024;
  check_config(config);
  if (config.shared_bytes > kAlwaysGranted) {
    gpu::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(config.shared_bytes)),
               config.name);
  }
  const dim3 grid(config.grid.x, config.grid.y, config.grid.z);
  const dim3 block(config.block.x, config.block.y, config.block.z);
  kernel<<<grid, block, config.shared_bytes,
           static_cast<cudaStream_t>(config.queue.stream.handle)>>>(
      std::forward<Arguments>(arguments)...);
  gpu::check(cudaGetLastError(), config.name);
}

}  // namespace ultra::simt

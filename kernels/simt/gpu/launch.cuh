#pragma once
/// @file
/// launch() on a GPU.

#include <cuda_runtime.h>

#include <utility>

#include "kernels/simt/config.hpp"
#include "kernels/simt/executor.hpp"
#include "kernels/simt/gpu/check.cuh"

namespace ultra::simt {

namespace gpu {

/// @brief Queues a kernel that may begin before the one before it has ended.
template <typename... Parameters, typename... Arguments>
void launch_beside(void (*kernel)(Parameters...), const Config& config, Arguments&&... arguments) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t launched = {};
  launched.gridDim = dim3(config.grid.x, config.grid.y, config.grid.z);
  launched.blockDim = dim3(config.block.x, config.block.y, config.block.z);
  launched.dynamicSmemBytes = config.shared_bytes;
  launched.stream = static_cast<cudaStream_t>(config.queue.stream.handle);
  launched.attrs = &attribute;
  launched.numAttrs = 1;
  check(cudaLaunchKernelEx(&launched, kernel, std::forward<Arguments>(arguments)...), config.name);
}

}  // namespace gpu

/// @brief Queues a kernel for every thread of the grid; `arguments` become its parameters. Nothing is
/// counted: Nsight Compute does that.
/// @throws SimtError when the launch is wrong or the CUDA run time refuses it; what a thread does
/// wrong shows at the next download.
template <Executor executor = kExecutor, typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), const Config& config, Arguments&&... arguments) {
  check_config(config);
  // More than 48 KiB must be asked for, and the kernel's own arrays count, which only the GPU knows.
  if (config.shared_bytes > 0) {
    gpu::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(config.shared_bytes)),
               config.name);
  }
  if (config.start == Start::kBesideTheKernelBefore) {
    gpu::launch_beside(kernel, config, std::forward<Arguments>(arguments)...);
    return;
  }
  const dim3 grid(config.grid.x, config.grid.y, config.grid.z);
  const dim3 block(config.block.x, config.block.y, config.block.z);
  kernel<<<grid, block, config.shared_bytes,
           static_cast<cudaStream_t>(config.queue.stream.handle)>>>(
      std::forward<Arguments>(arguments)...);
  gpu::check(cudaGetLastError(), config.name);
}

}  // namespace ultra::simt

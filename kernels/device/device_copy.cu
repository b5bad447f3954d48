// A copy in the GPU's memory.

#include "kernels/device/device_copy.hpp"

#include <cuda_runtime.h>

#include "kernels/simt/gpu/check.cuh"

namespace ultra::kernels {

struct DeviceCopy::Memory {
  std::size_t copied;
  void* from = nullptr;
  void* to = nullptr;

  ~Memory() {
    static_cast<void>(cudaFree(from));
    static_cast<void>(cudaFree(to));
  }
};

DeviceCopy::DeviceCopy(std::size_t bytes)
    : memory_(std::make_unique<Memory>(Memory{.copied = (bytes + 1) / 2})) {
  simt::gpu::check(cudaMalloc(&memory_->from, memory_->copied), "cudaMalloc of the copy's source");
  simt::gpu::check(cudaMalloc(&memory_->to, memory_->copied), "cudaMalloc of the copy's target");
  simt::gpu::check(cudaMemset(memory_->from, 1, memory_->copied),
                   "cudaMemset of the copy's source");
}

DeviceCopy::~DeviceCopy() = default;

void DeviceCopy::launch() {
  simt::gpu::check(
      cudaMemcpyAsync(memory_->to, memory_->from, memory_->copied, cudaMemcpyDeviceToDevice),
      "cudaMemcpy on the GPU");
}

}  // namespace ultra::kernels

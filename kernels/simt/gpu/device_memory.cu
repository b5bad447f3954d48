// Device memory on the CUDA run time.

#include "kernels/simt/gpu/device_memory.hpp"

#include <string>

#include "kernels/simt/error.hpp"
#include "kernels/simt/gpu/check.cuh"

namespace ultra::simt::gpu {

void refuse(cudaError_t status, const char* what) {
  throw SimtError(Fault::kCuda, std::string(what) + ": " + cudaGetErrorString(status) +
                                    ". Hint: does nvidia-smi work in this shell?");
}

void* allocate(std::size_t bytes) {
  void* address = nullptr;
  check(cudaMalloc(&address, bytes), "cudaMalloc");
  return address;
}

void release(void* address) noexcept { static_cast<void>(cudaFree(address)); }

void copy_to_device(void* destination, const void* source, std::size_t bytes) {
  check(cudaMemcpy(destination, source, bytes, cudaMemcpyHostToDevice), "cudaMemcpy to the GPU");
}

void copy_to_host(void* destination, const void* source, std::size_t bytes) {
  // A stream of the caller's need not wait for the default stream's copy.
  check(cudaDeviceSynchronize(), "a kernel before cudaMemcpy");
  check(cudaMemcpy(destination, source, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy from the GPU");
}

}  // namespace ultra::simt::gpu

// list_devices() on the CUDA run time. No GPU and no driver are ordinary answers here, not errors:
// the same binary runs on machines with and without one.

#include "kernels/device/device_info.hpp"

#include <cuda_runtime.h>

#include <stdexcept>

namespace ultra::kernels {
namespace {

void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess) {
    throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(status) +
                             ". Hint: does nvidia-smi work in this shell?");
  }
}

int count_devices() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver) {
    // The run time remembers the failure; cleared here, it cannot surface in a later call.
    static_cast<void>(cudaGetLastError());
    return 0;
  }
  check(status, "cudaGetDeviceCount");
  return count;
}

}  // namespace

std::vector<DeviceInfo> list_devices() {
  std::vector<DeviceInfo> devices;
  const int count = count_devices();
  for (int device = 0; device < count; ++device) {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
    devices.push_back({.name = properties.name,
                       .memory_bytes = properties.totalGlobalMem,
                       .compute_capability_major = properties.major,
                       .compute_capability_minor = properties.minor});
  }
  return devices;
}

}  // namespace ultra::kernels

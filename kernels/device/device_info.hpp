#pragma once

// Which GPUs this process can use. Free of CUDA headers, so that any source may include it;
// device_info.cu asks the CUDA run time, device_info_stub.cpp serves builds without CUDA.

#include <cstddef>
#include <string>
#include <vector>

/// @brief CUDA kernels and what they need to know about the machine; depends on no other module.
namespace ultra::kernels {

/// @brief One GPU as the CUDA run time describes it.
struct DeviceInfo {
  /// @brief The product's name, such as "NVIDIA H100 80GB HBM3".
  std::string name;
  /// @brief Global memory in bytes.
  std::size_t memory_bytes = 0;
  /// @brief Compute capability, the number before the point: 9 for an H100.
  int compute_capability_major = 0;
  /// @brief Compute capability, the number after the point.
  int compute_capability_minor = 0;
};

/// @brief Lists the GPUs of this machine that this process can see.
/// @return One entry per GPU, in the order of the CUDA device ids; empty when the build has no
///         CUDA, when there is no driver and when there is no GPU.
/// @throws std::runtime_error when a driver is there but answers with an error.
[[nodiscard]] std::vector<DeviceInfo> list_devices();

}  // namespace ultra::kernels

#pragma once
/// @file
/// The ceiling of kernels that memory limits: what the GPU's memory delivers to a kernel that only
/// reads and writes, without CUDA's headers. device_traffic.cu asks the CUDA run time,
/// device_traffic_stub.cpp serves builds without CUDA.

#include <cstddef>
#include <memory>

namespace ultra::kernels {

/// @brief A kernel that reads so many bytes, and writes so many, evenly mixed: memory takes its
/// turns between the two as it does for the kernel beside it. A mere copy would be no ceiling for a
/// kernel that mostly reads: reading alone is quicker.
class DeviceTraffic {
 public:
  /// @param read_bytes  rounded up to whole tiles, as is `written_bytes`.
  /// @throws simt::SimtError (Fault::kCuda) without a GPU, or without that memory; always in a
  /// build without CUDA.
  DeviceTraffic(std::size_t read_bytes, std::size_t written_bytes);
  /// @brief Frees the memory.
  ~DeviceTraffic();
  /// @brief The memory has one owner.
  DeviceTraffic(const DeviceTraffic&) = delete;
  /// @brief The memory has one owner.
  DeviceTraffic& operator=(const DeviceTraffic&) = delete;

  /// @brief Queues the kernel on the default stream.
  void launch();

 private:
  struct Memory;
  std::unique_ptr<Memory> memory_;
};

}  // namespace ultra::kernels

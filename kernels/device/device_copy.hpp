#pragma once
/// @file
/// The ceiling of kernels that memory limits: a copy in the GPU's memory, without CUDA's headers.
/// device_copy.cu asks the CUDA run time, device_copy_stub.cpp serves builds without CUDA.

#include <cstddef>
#include <memory>

namespace ultra::kernels {

/// @brief Two halves of GPU memory, one copied to the other by the CUDA run time.
class DeviceCopy {
 public:
  /// @param bytes  read and written together: half of them are copied.
  /// @throws simt::SimtError (Fault::kCuda) without a GPU, or without that memory; always in a
  /// build without CUDA.
  explicit DeviceCopy(std::size_t bytes);
  /// @brief Frees the memory.
  ~DeviceCopy();
  /// @brief The memory has one owner.
  DeviceCopy(const DeviceCopy&) = delete;
  /// @brief The memory has one owner.
  DeviceCopy& operator=(const DeviceCopy&) = delete;

  /// @brief Queues the copy on the default stream.
  void launch();

 private:
  struct Memory;
  std::unique_ptr<Memory> memory_;
};

}  // namespace ultra::kernels

#pragma once
/// @file
/// Memory of the GPU without CUDA's headers: device_memory.cu asks the CUDA run time,
/// device_memory_stub.cpp serves builds without CUDA.

#include <cstddef>

/// @brief What runs kernels on a GPU: plain CUDA.
namespace ultra::simt::gpu {

/// @brief Allocates device memory.
/// @throws SimtError (Fault::kCuda) when it fails; always in a build without CUDA.
[[nodiscard]] void* allocate(std::size_t bytes);
/// @brief Frees device memory; null is allowed.
void release(void* address) noexcept;
/// @brief Copies from the host.
/// @throws SimtError (Fault::kCuda) when it fails.
void copy_to_device(void* destination, const void* source, std::size_t bytes);
/// @brief Copies to the host, after the kernels that were launched before.
/// @throws SimtError (Fault::kCuda) when it, or a kernel before it, fails.
void copy_to_host(void* destination, const void* source, std::size_t bytes);

}  // namespace ultra::simt::gpu

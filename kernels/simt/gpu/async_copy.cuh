#pragma once
/// @file
/// cp.async on a GPU. kernels/simt/emulator/async_copy.hpp has the same for the emulator.

#include <cuda_runtime.h>

namespace ultra::simt {

namespace gpu {

/// @brief The address of a shared variable as instructions take it.
__device__ __forceinline__ unsigned shared_address(const void* shared) {
  return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

}  // namespace gpu

/// @brief Begins to copy 4, 8 or 16 bytes from global to shared memory; both addresses are multiples of
/// `bytes`. 16 bytes go past the first-level cache.
template <int bytes>
__device__ __forceinline__ void copy_async(void* shared, const void* global) {
  static_assert(bytes == 4 || bytes == 8 || bytes == 16, "cp.async copies 4, 8 or 16 bytes");
  if constexpr (bytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(gpu::shared_address(shared)),
                 "l"(global)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(gpu::shared_address(shared)),
                 "l"(global), "n"(bytes)
                 : "memory");
  }
}

/// @brief The same for a ragged edge: copies the first `source_bytes` (0 to `bytes`), and fills the rest
/// with zeros. With 0, nothing is read and `global` may be any aligned address.
template <int bytes>
__device__ __forceinline__ void copy_async(void* shared, const void* global, int source_bytes) {
  static_assert(bytes == 4 || bytes == 8 || bytes == 16, "cp.async copies 4, 8 or 16 bytes");
  if constexpr (bytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(gpu::shared_address(shared)),
                 "l"(global), "r"(source_bytes)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(gpu::shared_address(shared)),
                 "l"(global), "n"(bytes), "r"(source_bytes)
                 : "memory");
  }
}

/// @brief Makes a group, maybe an empty one, of this thread's copies since the last group.
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

/// @brief Waits for all groups of this thread but the `pending` latest.
template <int pending>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

}  // namespace ultra::simt

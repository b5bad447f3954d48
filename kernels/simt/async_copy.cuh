#pragma once
/// @file
/// Copies from global to shared memory that go past the registers and take place while the thread goes
/// on, on every executor: copy_async(), commit_copies(), wait_copies(). They are cp.async, which any
/// GPU since the A100 has; older ones (compute capability below 8.0) stop.
///
/// The rule: copies are gathered into groups; a thread waits for its own groups, the oldest first.
/// What a copy has written is there for the thread that issued it after its wait, for the others
/// after a barrier after that wait. Source: PTX ISA, "Data Movement and Conversion Instructions:
/// cp.async".

#if defined(__CUDACC__)

#include <cuda_runtime.h>

namespace ultra::simt {

namespace gpu {

/// @brief The address of a shared variable as instructions take it.
__device__ __forceinline__ unsigned shared_address(const void* shared) {
  return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

}  // namespace gpu

#if __CUDA_ARCH__ >= 800 || !defined(__CUDA_ARCH__)

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

#else

template <int bytes>
__device__ __forceinline__ void copy_async(void*, const void*, int = bytes) {
  __trap();
}

__device__ __forceinline__ void commit_copies() {}

template <int pending>
__device__ __forceinline__ void wait_copies() {}

#endif

}  // namespace ultra::simt

#else

#include <cstddef>
#include <cstring>

#include "kernels/simt/emulator/hooks.hpp"
#include "kernels/simt/executor.hpp"

namespace ultra::simt {

/// @brief Begins to copy 4, 8 or 16 bytes from global to shared memory; both addresses are multiples of
/// `bytes`. Copies the first `source_bytes` (0 to `bytes`), and fills the rest with zeros. With 0,
/// nothing is read and `global` may be any aligned address. Counts as a load and a store of its line.
template <int bytes, Executor executor = kExecutor>
void copy_async(void* shared, const void* global, int source_bytes = bytes,
                const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  static_assert(bytes == 4 || bytes == 8 || bytes == 16, "cp.async copies 4, 8 or 16 bytes");
  const auto source_size = static_cast<std::size_t>(source_bytes);
  if constexpr (executor == Executor::kChecked) {
    emulator::begin_copy({.shared = shared,
                          .global = global,
                          .size = bytes,
                          .source_size = source_size,
                          .place = {.file = file, .line = line}});
  } else {
    std::memset(shared, 0, bytes);
    std::memcpy(shared, global, source_size);
  }
}

/// @brief Makes a group, maybe an empty one, of this thread's copies since the last group.
template <Executor executor = kExecutor>
void commit_copies() {
  if constexpr (executor == Executor::kChecked) {
    emulator::commit_copies();
  }
}

/// @brief Waits for all groups of this thread but the `pending` latest.
template <int pending, Executor executor = kExecutor>
void wait_copies() {
  if constexpr (executor == Executor::kChecked) {
    emulator::land_copies(pending);
  }
}

}  // namespace ultra::simt

#endif

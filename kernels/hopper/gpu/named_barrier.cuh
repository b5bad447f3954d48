#pragma once
/// @file
/// bar.sync and bar.arrive on a GPU. kernels/hopper/emulator/named_barrier.hpp has the same for the
/// emulator.

namespace ultra::kernels::hopper {
namespace {

/// @brief Waits until `threads` threads have come to barrier `name`. Whole warps call it.
template <int threads>
__device__ __forceinline__ void wait_at_named(int name) {
  asm volatile("bar.sync %0, %1;" ::"r"(name), "n"(threads) : "memory");
}

/// @brief Comes to barrier `name`, which opens for `threads` threads, and goes on. Whole warps call it.
template <int threads>
__device__ __forceinline__ void arrive_at_named(int name) {
  asm volatile("bar.arrive %0, %1;" ::"r"(name), "n"(threads) : "memory");
}

}  // namespace
}  // namespace ultra::kernels::hopper

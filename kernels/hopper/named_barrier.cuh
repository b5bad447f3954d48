#pragma once
/// @file
/// The block's 16 barriers of the hardware, for a part of its warps: wait_at_named() and
/// arrive_at_named(), on every executor. Barrier 0 is __syncthreads(). Each opens when as many threads
/// have come as its callers say, and begins anew. Source: PTX ISA, "bar".

#include "kernels/simt/simt.cuh"

#if defined(__CUDACC__)

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

#else

#include "kernels/simt/emulator/async/hooks.hpp"

namespace ultra::kernels::hopper {
namespace {

/// @brief Waits until `threads` threads have come to barrier `name`. Whole warps call it.
template <int threads>
void wait_at_named(int name, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  simt::emulator::gather(static_cast<unsigned>(name), threads, simt::emulator::AtBarrier::kWait,
                         {.file = file, .line = line});
}

/// @brief Comes to barrier `name`, which opens for `threads` threads, and goes on. Whole warps call it.
template <int threads>
void arrive_at_named(int name, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  simt::emulator::gather(static_cast<unsigned>(name), threads, simt::emulator::AtBarrier::kGoOn,
                         {.file = file, .line = line});
}

}  // namespace
}  // namespace ultra::kernels::hopper

#endif

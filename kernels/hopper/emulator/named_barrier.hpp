#pragma once
/// @file
/// bar.sync and bar.arrive for the emulator. kernels/hopper/gpu/named_barrier.cuh has the same for a GPU.

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

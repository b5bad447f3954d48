#pragma once
/// @file
/// Turns the overflow of a fiber's stack, a fault of the processor, into a jump back to the engine.

#include <csetjmp>
#include <cstdint>

namespace ultra::simt::emulator {

/// @brief Where to go when a stack overflows, while a launch runs on this thread.
struct OverflowTrap {
  /// @brief Set by sigsetjmp() in the frame that runs the launch.
  sigjmp_buf environment;
  /// @brief Whether a faulty address is an overflow of the running fiber; called by the handler of
  /// the signal.
  bool (*is_overflow)(void* engine, std::uintptr_t address);
  /// @brief Its first argument.
  void* engine;
};

/// @brief Arms the trap of this thread of the operating system; null disarms it. Other faults stay
/// what they were before.
void arm_overflow_trap(OverflowTrap* trap);

}  // namespace ultra::simt::emulator

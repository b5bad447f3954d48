#pragma once
/// @file
/// griddepcontrol for the emulator, which runs kernels one after the other and checks that they need
/// not be (dependent_launches.cpp).

#include "kernels/simt/emulator/hooks.hpp"

namespace ultra::simt {

/// @brief Waits until the kernel before has ended and what it wrote is to be seen.
inline void wait_for_kernel_before() { emulator::note_wait_for_kernel_before(); }

/// @brief Allows the next kernel to begin, once all blocks have said so or have ended.
inline void let_next_kernel_begin() {}

}  // namespace ultra::simt

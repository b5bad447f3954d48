#pragma once
/// @file
/// Copies from global to shared memory that go past the registers and take place while the thread goes
/// on, on every side: copy_async(), commit_copies(), wait_copies(). They are cp.async, which any GPU
/// since the A100 has.
///
/// The rule: copies are gathered into groups; a thread waits for its own groups, the oldest first. What
/// a copy has written is there for the thread that issued it after its wait, for the others after a
/// barrier behind that wait. Source: PTX ISA, "Data Movement and Conversion Instructions: cp.async".

#if defined(__CUDACC__)
#include "kernels/simt/gpu/async_copy.cuh"
#else
#include "kernels/simt/emulator/async_copy.hpp"
#endif

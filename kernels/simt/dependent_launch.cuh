#pragma once
/// @file
/// Kernels that begin before the one before them has ended (Start::kBesideTheKernelBefore), on every
/// executor: wait_for_kernel_before() and let_next_kernel_begin(). NVIDIA calls it programmatic
/// dependent launch.
///
/// The rule: before its wait a thread writes nothing, and reads nothing that the kernel before writes.
/// Source: PTX ISA, "griddepcontrol"; CUDA C++ Programming Guide, "Programmatic Dependent Launch and
/// Synchronization".

#if defined(__CUDACC__)

namespace ultra::simt {

/// @brief Waits until the kernel before has ended and what it wrote is to be seen. On GPUs before the
/// H100, where no kernel begins earlier, nothing.
__device__ __forceinline__ void wait_for_kernel_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// @brief Allows the next kernel to begin, once all blocks have said so or have ended.
__device__ __forceinline__ void let_next_kernel_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace ultra::simt

#else

#include "kernels/simt/emulator/hooks.hpp"

namespace ultra::simt {

/// @brief Waits until the kernel before has ended and what it wrote is to be seen.
inline void wait_for_kernel_before() { emulator::note_wait_for_kernel_before(); }

/// @brief Allows the next kernel to begin, once all blocks have said so or have ended.
inline void let_next_kernel_begin() {}

}  // namespace ultra::simt

#endif

#pragma once
/// @file
/// griddepcontrol on a GPU. kernels/simt/emulator/dependent_launch.hpp has the same for the emulator.

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

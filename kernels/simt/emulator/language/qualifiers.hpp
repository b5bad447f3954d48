#pragma once
/// @file
/// CUDA's words of the language, for the host's compiler. These macros are CUDA's, not ours: a kernel
/// cannot be written without them.

/// @brief A kernel.
#define __global__
/// @brief A function for kernels to call.
#define __device__
/// @brief A function for the host to call.
#define __host__
/// @brief A variable that the threads of a block share. One block runs at a time on each thread of
/// the operating system.
#define __shared__ static thread_local
/// @brief A variable of all blocks that the kernel does not change.
#define __constant__ static const
/// @brief Inlined wherever it is called.
#define __forceinline__ inline __attribute__((always_inline))
/// @brief Not inlined.
#define __noinline__ __attribute__((noinline))
/// @brief An address that is a multiple of `bytes`.
#define __align__(bytes) __attribute__((aligned(bytes)))
/// @brief The threads of the largest block, and so on: for the register allocation of nvcc only.
#define __launch_bounds__(...)

#pragma once
/// @file
/// Kernels that begin before the one before them has ended (Start::kBesideTheKernelBefore), on every
/// side: wait_for_kernel_before() and let_next_kernel_begin(). NVIDIA calls it programmatic dependent
/// launch.
///
/// The rule: before its wait a thread writes nothing, and reads nothing that the kernel before writes.
/// Source: PTX ISA, "griddepcontrol"; CUDA C++ Programming Guide, "Programmatic Dependent Launch and
/// Synchronization".

#if defined(__CUDACC__)
#include "kernels/simt/gpu/dependent_launch.cuh"
#else
#include "kernels/simt/emulator/dependent_launch.hpp"
#endif

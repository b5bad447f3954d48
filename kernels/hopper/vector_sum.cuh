#pragma once
/// @file
/// Four neighbouring sums in global memory at once, which only Hopper has: add_vector(), on every side.
/// Source: PTX ISA, "red" with .v4.f32.

#if defined(__CUDACC__)
#include "kernels/hopper/gpu/vector_sum.cuh"
#else
#include "kernels/hopper/emulator/vector_sum.hpp"
#endif

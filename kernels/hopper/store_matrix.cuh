#pragma once
/// @file
/// stmatrix, which only Hopper has: store_matrices(), on every side. Source: PTX ISA, "stmatrix".

#if defined(__CUDACC__)
#include "kernels/hopper/gpu/store_matrix.cuh"
#else
#include "kernels/hopper/emulator/store_matrix.hpp"
#endif

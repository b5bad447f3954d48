#pragma once
/// @file
/// Functions of one instruction of the GPU's special function units, on every side.

#if defined(__CUDACC__)
#include "kernels/simt/gpu/fast_math.cuh"
#else
#include "kernels/simt/emulator/fast_math.hpp"
#endif

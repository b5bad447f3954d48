#pragma once
/// @file
/// The element types below 32 bits, on every side: half, bf16, fp8_e4m3 and fp8_e5m2, with CUDA's
/// conversions.

#if defined(__CUDACC__)
#include "kernels/simt/gpu/types.cuh"
#else
#include "kernels/simt/emulator/types.hpp"
#endif

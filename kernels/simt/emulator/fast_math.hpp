#pragma once
/// @file
/// Functions of one instruction on a GPU, for the emulator; kernels/simt/gpu/fast_math.cuh has the same
/// names.

namespace ultra::simt {

/// @brief 2^x, and 0 where the result is below 2^-126; a GPU's is off by a relative 2^-22 at most.
inline float exp2_flushed(float x) { return x < -126.0F ? 0.0F : __builtin_exp2f(x); }

}  // namespace ultra::simt

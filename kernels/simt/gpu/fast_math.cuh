#pragma once
/// @file
/// Functions of one instruction on a GPU; kernels/simt/emulator/fast_math.hpp has the same names.

namespace ultra::simt {

/// @brief 2^x by one instruction: off by a relative 2^-22 at most; 0 where the result is below 2^-126.
/// exp2f() and __expf() also scale before and after it, because they keep such results.
/// Source: PTX ISA, "ex2".
__device__ __forceinline__ float exp2_flushed(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

}  // namespace ultra::simt

#pragma once
/// @file
/// Functions of one instruction of the GPU's special function units, on every executor.

#if defined(__CUDACC__)

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

#else

namespace ultra::simt {

/// @brief 2^x, and 0 where the result is below 2^-126; a GPU's is off by a relative 2^-22 at most.
inline float exp2_flushed(float x) { return x < -126.0F ? 0.0F : __builtin_exp2f(x); }

}  // namespace ultra::simt

#endif

#pragma once
/// @file
/// The element types below 32 bits, on every executor: half, bf16, fp8_e4m3 and fp8_e5m2, with CUDA's
/// conversions.

#if defined(__CUDACC__)

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

namespace ultra::simt {

/// @brief IEEE half precision: 5 bits of exponent, 10 of fraction.
using half = __half;
/// @brief bfloat16: float's 8 bits of exponent, 7 of fraction.
using bf16 = __nv_bfloat16;
/// @brief 8 bits, 4 of exponent and 3 of fraction, no infinity; conversions saturate at 448.
using fp8_e4m3 = __nv_fp8_e4m3;
/// @brief 8 bits, 5 of exponent and 2 of fraction; conversions saturate at 57344.
using fp8_e5m2 = __nv_fp8_e5m2;

}  // namespace ultra::simt

#else

#include "kernels/simt/emulator/language/small_float.hpp"

namespace ultra::simt {

/// @brief IEEE half precision: 5 bits of exponent, 10 of fraction.
using half = emulator::SmallFloat<5, 10, 0x7bff, emulator::Overflow::kInfinity>;
/// @brief bfloat16: float's 8 bits of exponent, 7 of fraction.
using bf16 = emulator::SmallFloat<8, 7, 0x7f7f, emulator::Overflow::kInfinity>;
/// @brief 8 bits, 4 of exponent and 3 of fraction, no infinity; conversions saturate at 448.
using fp8_e4m3 = emulator::SmallFloat<4, 3, 0x7e, emulator::Overflow::kSaturate>;
/// @brief 8 bits, 5 of exponent and 2 of fraction; conversions saturate at 57344.
using fp8_e5m2 = emulator::SmallFloat<5, 2, 0x7b, emulator::Overflow::kSaturate>;

}  // namespace ultra::simt

/// @brief half under CUDA's name.
using __half = ultra::simt::half;
/// @brief bf16 under CUDA's name.
using __nv_bfloat16 = ultra::simt::bf16;

/// @brief The exact float.
constexpr float __half2float(__half value) { return static_cast<float>(value); }
/// @brief The nearest half.
constexpr __half __float2half(float value) { return __half(value); }
/// @brief The exact float.
constexpr float __bfloat162float(__nv_bfloat16 value) { return static_cast<float>(value); }
/// @brief The nearest bf16.
constexpr __nv_bfloat16 __float2bfloat16(float value) { return __nv_bfloat16(value); }

#endif

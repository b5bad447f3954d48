#pragma once
/// @file
/// The element types of kernels on a GPU: CUDA's. kernels/simt/emulator/types.hpp has the same names.

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

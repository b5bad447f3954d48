#pragma once
/// @file
/// From f32 to bf16: which of the two neighbours, and what must not be touched.
///
/// A bf16 number is an f32 number whose lower 16 bits are zero: the way back is exact. On the way
/// there every f32 number goes to the nearest bf16 number; one that lies in the middle goes to the
/// neighbour whose last bit is 0. Numbers too large for any neighbour become infinite, and NaN
/// stays NaN.
///
/// Exercise 10.1 (`./workbook check 10.1`). Body: solutions/10_mixed_precision/bf16_rounding.cpp.
/// Source: Kalamkar et al. 2019, "A study of BFLOAT16 for deep learning training", arXiv 1905.12322,
/// sec. 3; IEEE 754-2019, sec. 4.3.1.

#include <bit>
#include <cstdint>

namespace ultra::mixed_precision {

/// @brief The bits of the nearest bf16 number, ties to even.
/// @param x  any f32, also subnormal, infinite or NaN.
/// @return sign, 8 bits of exponent, 7 of the fraction. A NaN keeps its sign and becomes quiet.
[[nodiscard]] std::uint16_t bf16_from_f32(float x);

/// @brief The number of these bits: exact.
[[nodiscard]] constexpr float f32_from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16U);
}

}  // namespace ultra::mixed_precision

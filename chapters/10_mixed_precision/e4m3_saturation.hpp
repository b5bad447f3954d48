#pragma once
/// @file
/// From f32 to fp8 e4m3: four bits of exponent, three of the fraction, and no infinity.
///
/// With so few codes e4m3 gives none away: the largest exponent holds numbers too, up to 448, and
/// only the code of all ones is NaN. So what is too large cannot become infinite. It saturates:
/// becomes the largest number, with its sign. Rounding is to nearest, ties to even, also among the
/// subnormal numbers, which are 2^-9 apart.
///
/// Exercise 10.2 (`./workbook check 10.2`). Body: solutions/10_mixed_precision/e4m3_saturation.cpp.
/// Source: Micikevicius et al. 2022, "FP8 formats for deep learning", arXiv 2209.05433, sec. 3;
/// OCP 8-bit Floating Point Specification (OFP8) v1.0, sec. 5.2, conversion with saturation.

#include <cstdint>

namespace ultra::mixed_precision {

/// The largest e4m3 number.
inline constexpr float kE4m3Largest = 448.0F;

/// @brief The code of the nearest e4m3 number, ties to even, saturating.
/// @param x  any f32: infinity saturates, NaN becomes NaN (0x7F or 0xFF), -0 stays -0.
[[nodiscard]] std::uint8_t e4m3_from_f32(float x);

}  // namespace ultra::mixed_precision

#pragma once
/// @file
/// From f32 to fp16 and fp8 e5m2, and every format of 16 and 8 bits back.
///
/// Both have five bits of exponent, and what is too large becomes infinite. The rounding is left to
/// an addition: the sum of a number with another whose last place is that of the format is rounded by
/// the processor, to nearest and ties to even, to just that place.
///
/// Source: IEEE 754-2019, sec. 3.6 and 4.3.1; arXiv 2209.05433, sec. 3.

#include <cstdint>

namespace ultra::mixed_precision {

/// @brief What becomes of numbers beyond the largest.
enum class Overflow : std::uint8_t {
  kInfinity,  ///< those that round beyond it become infinite
  kSaturate,  ///< they become the largest, and so does infinity
};

/// @brief The bits of the nearest fp16 number; NaN stays NaN, with its sign.
[[nodiscard]] std::uint16_t fp16_from_f32(float x, Overflow overflow = Overflow::kInfinity);

/// @brief The number of these bits: exact.
[[nodiscard]] float f32_from_fp16(std::uint16_t bits);

/// @brief The code of the nearest e5m2 number; NaN stays NaN, with its sign.
[[nodiscard]] std::uint8_t e5m2_from_f32(float x, Overflow overflow = Overflow::kInfinity);

}  // namespace ultra::mixed_precision

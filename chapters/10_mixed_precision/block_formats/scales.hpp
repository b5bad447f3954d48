#pragma once
/// @file
/// Scales of fp8: which of the two formats, its largest number, and a power of two that fits.

#include <cstdint>
#include <string_view>

namespace ultra::mixed_precision {

/// @brief The two formats of eight bits.
enum class Fp8 : std::uint8_t {
  kE4m3,  ///< finer, up to 448
  kE5m2,  ///< wider, up to 57344
};

/// @brief "e4m3" or "e5m2".
[[nodiscard]] std::string_view to_string(Fp8 format);

/// @brief The largest number of a format.
[[nodiscard]] float largest_of(Fp8 format);

/// @brief The code of the nearest number, saturating.
[[nodiscard]] std::uint8_t fp8_from_f32(Fp8 format, float x);

/// @brief The number of a code.
[[nodiscard]] float f32_from_fp8(Fp8 format, std::uint8_t code);

/// @brief The largest power of two by which `amax` can be multiplied without leaving the format,
/// divided by 2^margin; 1 for an amax of 0, infinity or NaN.
///
/// Multiplying by it, and dividing, rounds nothing.
/// @param amax    largest magnitude of what is to be scaled.
/// @param margin  powers of two that stay free below the largest number.
[[nodiscard]] float power_of_two_scale(float amax, Fp8 format, int margin = 0);

}  // namespace ultra::mixed_precision

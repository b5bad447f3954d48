#include "chapters/10_mixed_precision/formats/small_floats.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "chapters/10_mixed_precision/formats/number_format.hpp"

namespace ultra::mixed_precision {
namespace {

// [region encode]
/// |x|, finite, on the format's grid, by the rounding of an addition in f64.
double rounded_magnitude(const NumberFormat& format, double magnitude) {
  const int exponent = magnitude == 0.0 ? -1000 : std::ilogb(magnitude);
  const int place = std::max(exponent, 1 - format.bias()) - format.fraction_bits;
  const double whole = std::ldexp(0x1p52, place);  // the last place of such a number is 2^place
  return (magnitude + whole) - whole;
}

/// The code of a magnitude that the format has.
std::uint32_t code_of(const NumberFormat& format, double magnitude) {
  if (magnitude < format.smallest_normal()) {
    return static_cast<std::uint32_t>(magnitude / format.smallest_subnormal());
  }
  const int exponent = std::ilogb(magnitude);
  const double fraction = std::ldexp(magnitude, -exponent) - 1.0;
  const auto stored = static_cast<std::uint32_t>(exponent + format.bias());
  return (stored << static_cast<unsigned>(format.fraction_bits)) +
         static_cast<std::uint32_t>(fraction / format.epsilon());
}

std::uint32_t magnitude_code(const NumberFormat& format, double magnitude, Overflow overflow) {
  const auto fraction_bits = static_cast<unsigned>(format.fraction_bits);
  const std::uint32_t infinity = ((1U << static_cast<unsigned>(format.exponent_bits)) - 1)
                                 << fraction_bits;
  if (std::isnan(magnitude)) return infinity | (1U << (fraction_bits - 1));
  const double rounded = std::isinf(magnitude) ? magnitude : rounded_magnitude(format, magnitude);
  if (rounded <= format.largest()) return code_of(format, rounded);
  return overflow == Overflow::kInfinity ? infinity : infinity - 1;
}

std::uint32_t encode(const NumberFormat& format, float x, Overflow overflow) {
  const std::uint32_t sign = std::bit_cast<std::uint32_t>(x) >> 31U;
  return sign << static_cast<unsigned>(format.bits() - 1) |
         magnitude_code(format, std::abs(static_cast<double>(x)), overflow);
}
// [/region]

}  // namespace

std::uint16_t fp16_from_f32(float x, Overflow overflow) {
  return static_cast<std::uint16_t>(encode(kFp16, x, overflow));
}

float f32_from_fp16(std::uint16_t bits) { return static_cast<float>(decode(kFp16, bits)); }

std::uint8_t e5m2_from_f32(float x, Overflow overflow) {
  return static_cast<std::uint8_t>(encode(kFp8E5m2, x, overflow));
}

}  // namespace ultra::mixed_precision

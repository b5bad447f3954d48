#include "chapters/10_mixed_precision/formats/number_format.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace ultra::mixed_precision {
namespace {

constexpr std::uint32_t ones(int bits) {
  return (std::uint32_t{1} << static_cast<unsigned>(bits)) - 1;
}

/// The largest fraction of a finite number of the largest exponent.
std::uint32_t largest_fraction(const NumberFormat& format) {
  return ones(format.fraction_bits) - (format.top == TopExponent::kOneNan ? 1 : 0);
}

/// What the codes of the largest exponent mean that are no numbers.
double special(const NumberFormat& format, std::uint32_t fraction) {
  return fraction == 0 && format.has_infinity() ? std::numeric_limits<double>::infinity()
                                                : std::numeric_limits<double>::quiet_NaN();
}

bool is_special(const NumberFormat& format, std::uint32_t exponent, std::uint32_t fraction) {
  if (exponent != ones(format.exponent_bits)) return false;
  return format.has_infinity() || fraction > largest_fraction(format);
}

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

int NumberFormat::max_exponent() const {
  const auto stored = static_cast<int>(ones(exponent_bits)) - (has_infinity() ? 1 : 0);
  return stored - bias();
}

double NumberFormat::largest() const {
  return std::ldexp(1.0 + largest_fraction(*this) * epsilon(), max_exponent());
}

double NumberFormat::smallest_normal() const { return std::ldexp(1.0, 1 - bias()); }

double NumberFormat::smallest_subnormal() const {
  return std::ldexp(1.0, 1 - bias() - fraction_bits);
}

double NumberFormat::epsilon() const { return std::ldexp(1.0, -fraction_bits); }

std::uint64_t NumberFormat::finite_numbers() const {
  const std::uint64_t fractions = std::uint64_t{1} << static_cast<unsigned>(fraction_bits);
  const std::uint64_t exponents = ones(exponent_bits) + (has_infinity() ? 0ULL : 1ULL);
  const std::uint64_t magnitudes = exponents * fractions - (top == TopExponent::kOneNan ? 1 : 0);
  return 2 * magnitudes - 1;
}

// [region decode]
double decode(const NumberFormat& format, std::uint32_t code) {
  const std::uint32_t fraction = code & ones(format.fraction_bits);
  const std::uint32_t exponent =
      code >> static_cast<unsigned>(format.fraction_bits) & ones(format.exponent_bits);
  const bool negative = (code >> static_cast<unsigned>(format.bits() - 1) & 1U) != 0;
  double magnitude = 0.0;
  if (is_special(format, exponent, fraction)) {
    magnitude = special(format, fraction);
  } else if (exponent == 0) {
    magnitude = fraction * format.smallest_subnormal();
  } else {
    magnitude =
        std::ldexp(1.0 + fraction * format.epsilon(), static_cast<int>(exponent) - format.bias());
  }
  return negative ? -magnitude : magnitude;
}
// [/region]

std::uint16_t fp16_from_f32(float x, Overflow overflow) {
  return static_cast<std::uint16_t>(encode(kFp16, x, overflow));
}

float f32_from_fp16(std::uint16_t bits) { return static_cast<float>(decode(kFp16, bits)); }

std::uint8_t e5m2_from_f32(float x, Overflow overflow) {
  return static_cast<std::uint8_t>(encode(kFp8E5m2, x, overflow));
}

}  // namespace ultra::mixed_precision

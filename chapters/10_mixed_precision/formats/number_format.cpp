#include "chapters/10_mixed_precision/formats/number_format.hpp"

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

}  // namespace ultra::mixed_precision

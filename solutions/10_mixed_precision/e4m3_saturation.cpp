#include "chapters/10_mixed_precision/e4m3_saturation.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace ultra::mixed_precision {
namespace {

constexpr unsigned kFractionBits = 3;
constexpr int kBias = 7;
constexpr std::uint32_t kNan = 0x7F;
constexpr std::uint32_t kLargestCode = 0x7E;

}  // namespace

// [region e4m3]
std::uint8_t e4m3_from_f32(float x) {
  const std::uint32_t sign = std::bit_cast<std::uint32_t>(x) >> 31U << 7U;
  if (std::isnan(x)) return static_cast<std::uint8_t>(sign | kNan);
  const float magnitude = std::min(std::abs(x), 2 * kE4m3Largest);  // also infinity's
  // Numbers below the smallest normal one have its exponent: their last place is the same.
  const int exponent = magnitude < 0x1p-6F ? 1 - kBias : std::ilogb(magnitude);
  // Whole steps of the last place: 8 to 15 for a normal number, less for a subnormal one; with 16 the
  // rounding has reached the next exponent, and the sum below carries into it.
  const auto steps = static_cast<std::uint32_t>(
      std::nearbyint(std::ldexp(magnitude, static_cast<int>(kFractionBits) - exponent)));
  const auto binade = static_cast<std::uint32_t>(exponent + kBias - 1) << kFractionBits;
  return static_cast<std::uint8_t>(sign | std::min(binade + steps, kLargestCode));
}
// [/region]

}  // namespace ultra::mixed_precision

#include "chapters/10_mixed_precision/bf16_rounding.hpp"

namespace ultra::mixed_precision {

// [region rounding]
std::uint16_t bf16_from_f32(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const bool is_nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
  // What is cut off could be all that makes it a NaN: without a fraction it would be infinity.
  if (is_nan) return static_cast<std::uint16_t>((bits >> 16U) | 0x40U);
  const std::uint32_t last_bit = bits >> 16U & 1U;
  // A carry out of the fraction raises the exponent, which is right: from the largest, to infinity.
  return static_cast<std::uint16_t>((bits + 0x7FFFU + last_bit) >> 16U);
}
// [/region]

}  // namespace ultra::mixed_precision

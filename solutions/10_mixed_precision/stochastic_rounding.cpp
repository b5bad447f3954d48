#include "chapters/10_mixed_precision/stochastic_rounding.hpp"

#include <bit>
#include <cmath>

namespace ultra::mixed_precision {

// [region stochastic]
std::uint16_t bf16_stochastic(float x, std::uint16_t random) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if (std::isnan(x)) return static_cast<std::uint16_t>((bits >> 16U) | 0x40U);
  // The lower half is how far x stands above the neighbour nearer to zero, in 65,536ths of the way:
  // of all random numbers, that many carry into the upper half. Infinity's lower half is zero.
  return static_cast<std::uint16_t>((bits + random) >> 16U);
}
// [/region]

}  // namespace ultra::mixed_precision

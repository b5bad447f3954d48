#pragma once
/// @file
/// Elementary functions as straight-line code, so that the compiler turns loops over them into
/// vector instructions.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace ultra::ops::cpu {

/// @brief exp(x) in f64, from the C library: the reference precision.
inline double exp_of(double x) { return std::exp(x); }

/// @brief exp(x) in f32 within 2 units in the last place; 0 below -87.3, no branches.
///
/// x = n ln 2 + r with |r| <= ln 2 / 2, then a degree-6 polynomial for exp(r) and n added to the
/// exponent bits. Source: Cody & Waite 1980, range reduction in two parts.
inline float exp_of(float x) {
  constexpr float kLog2E = 1.44269504088896341F;
  constexpr float kLn2High = 0.693359375F;
  constexpr float kLn2Low = -2.12194440e-4F;
  const float bounded = std::min(std::max(x, -87.3F), 88.3F);
  const float n = std::nearbyint(bounded * kLog2E);
  const float r = (bounded - n * kLn2High) - n * kLn2Low;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  const std::int32_t exponent = static_cast<std::int32_t>(n) << 23;
  const float value = std::bit_cast<float>(std::bit_cast<std::int32_t>(p) + exponent);
  return x < -87.3F ? 0.0F : value;
}

/// @brief 1 / (1 + exp(-x)).
template <class T>
inline T sigmoid(T x) {
  return T(1) / (T(1) + exp_of(-x));
}

}  // namespace ultra::ops::cpu

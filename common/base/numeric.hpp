#pragma once
/// @file
/// Small helpers for whole numbers: checked conversions and rounded divisions.

#include <concepts>
#include <cstddef>
#include <utility>

#include "common/base/errors.hpp"

namespace ultra {

/// @brief Converts between integer types; throws InternalError when the value does not fit.
template <std::integral To, std::integral From>
[[nodiscard]] constexpr To checked_cast(From value) {
  if (!std::in_range<To>(value)) [[unlikely]] {
    throw InternalError("integer conversion out of range");
  }
  return static_cast<To>(value);
}

/// @brief A count for arithmetic in floating point.
[[nodiscard]] constexpr double real(std::size_t count) { return static_cast<double>(count); }

/// @brief Smallest q with q * b >= a, for b > 0.
template <std::integral T>
[[nodiscard]] constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}

/// @brief Smallest multiple of `step` that is at least `value`, for step > 0.
template <std::integral T>
[[nodiscard]] constexpr T round_up(T value, T step) {
  return ceil_div(value, step) * step;
}

}  // namespace ultra

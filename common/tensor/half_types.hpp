#pragma once
/// @file
/// BFloat16 and Float16: numbers of two bytes, as they are stored, and their conversions.
///
/// Nothing computes in them: an operation reads them as f32, computes there, and rounds once when it
/// stores its result.

#include <bit>
#include <cstdint>
#include <span>
#include <type_traits>

namespace ultra {

/// @brief A bfloat16 number: the upper half of an f32's bits.
/// Source: Kalamkar et al. 2019, "A study of BFLOAT16 for deep learning training", arXiv 1905.12322.
struct BFloat16 {
  std::uint16_t bits;  ///< sign, 8 bits of exponent, 7 of the fraction

  /// @brief The same number in f32: every bfloat16 number is one.
  constexpr explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
  }
  /// @brief The same number in f64.
  constexpr explicit operator double() const {
    return static_cast<double>(static_cast<float>(*this));
  }
};

/// @brief An IEEE half-precision number (binary16).
/// Source: IEEE 754-2019, sec. 3.6.
struct Float16 {
  std::uint16_t bits;  ///< sign, 5 bits of exponent, 10 of the fraction

  /// @brief The same number in f32: every f16 number is one.
  constexpr explicit operator float() const {
    const std::uint32_t sign = (bits & 0x8000U) << 16U;
    const std::uint32_t magnitude = bits & 0x7FFFU;
    if (magnitude >= 0x7C00U) {  // infinity and NaN, which becomes quiet
      const std::uint32_t quiet = magnitude > 0x7C00U ? 0x400000U : 0U;
      return std::bit_cast<float>(sign | 0x7F800000U | (magnitude & 0x3FFU) << 13U | quiet);
    }
    if (magnitude < 0x400U) {  // subnormal: a multiple of 2^-24
      return std::bit_cast<float>(
          sign | std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-24F));
    }
    return std::bit_cast<float>(sign | ((magnitude << 13U) + (112U << 23U)));
  }
  /// @brief The same number in f64.
  constexpr explicit operator double() const {
    return static_cast<double>(static_cast<float>(*this));
  }
};

/// @brief Two-byte floating-point numbers.
template <class T>
concept HalfScalar = std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>;

/// @brief Numbers that tensors store: what is computed with, and the two-byte ones.
template <class T>
concept StoredScalar = std::is_same_v<T, float> || std::is_same_v<T, double> || HalfScalar<T>;

/// @brief The nearest number of two bytes, ties to even; too large ones become infinite, NaN stays.
template <HalfScalar To>
[[nodiscard]] constexpr To round_to(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits & 0x80000000U) >> 16U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  constexpr bool kUpperHalf = std::is_same_v<To, BFloat16>;
  constexpr unsigned kDropped = kUpperHalf ? 16 : 13;  // bits of the fraction
  std::uint32_t rounded = 0;
  if (magnitude > 0x7F800000U) {
    constexpr std::uint32_t kQuiet = kUpperHalf ? 0x7FC0U : 0x7E00U;
    constexpr std::uint32_t kPayload = kUpperHalf ? 0x3FU : 0x1FFU;
    rounded = kQuiet | (magnitude >> kDropped & kPayload);
  } else if (kUpperHalf || (magnitude >= 0x38800000U && magnitude < 0x47800000U)) {
    const std::uint32_t odd = magnitude >> kDropped & 1U;
    const std::uint32_t exponent_shift = kUpperHalf ? 0 : 112U << 23U;  // the biases differ
    rounded = (magnitude + (1U << (kDropped - 1)) - 1 + odd - exponent_shift) >> kDropped;
  } else if (magnitude < 0x38800000U) {
    // Below f16's normal numbers: the sum with 0.5 is rounded to their spacing, 2^-24.
    const float sum = std::bit_cast<float>(magnitude) + 0.5F;
    rounded = std::bit_cast<std::uint32_t>(sum) - std::bit_cast<std::uint32_t>(0.5F);
  } else {
    rounded = 0x7C00U;
  }
  return To{static_cast<std::uint16_t>(sign | rounded)};
}

/// @brief The same of an f64 number, rounded once.
///
/// By way of the f32 number that is "rounded to odd": its last bit remembers that something was cut
/// off, so that the second rounding decides as one rounding would.
/// Source: Boldo & Melquiond 2008, "Emulation of FMA and correctly rounded sums", IEEE Trans. Comput.
template <HalfScalar To>
[[nodiscard]] constexpr To round_to(double value) {
  const auto nearest = static_cast<float>(value);
  const auto back = static_cast<double>(nearest);
  if (back == value || value != value) return round_to<To>(nearest);
  const bool grew = value < 0.0 ? back < value : back > value;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(nearest) - (grew ? 1U : 0U);
  return round_to<To>(std::bit_cast<float>(bits | 1U));
}

/// @brief One number as another type: exactly where that can hold it, else the nearest.
template <StoredScalar To, StoredScalar From>
[[nodiscard]] constexpr To number_as(From value) {
  if constexpr (!HalfScalar<To>) {
    return static_cast<To>(value);
  } else if constexpr (HalfScalar<From>) {
    return round_to<To>(static_cast<float>(value));
  } else {
    return round_to<To>(value);
  }
}

/// @brief Converts each element: exactly where `To` can hold it, else to the nearest, ties to even.
///
/// Sign and upper bits of a NaN stay; subnormal numbers stay.
/// @throws InternalError when the numbers of elements differ.
template <StoredScalar To, StoredScalar From>
void convert(std::span<const From> from, std::span<To> to);

}  // namespace ultra

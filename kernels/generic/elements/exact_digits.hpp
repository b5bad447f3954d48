#pragma once
/// @file
/// ExactDigits: how a sum of f64 numbers is kept without rounding, whatever their order and whoever adds them.

#include <cstddef>
#include <cstdint>

// With nvcc, what is of the host alone does not run in a kernel.
#if defined(__CUDACC__)
#define ULTRA_EVERYWHERE __host__ __device__
#else
#define ULTRA_EVERYWHERE
#endif

namespace ultra::kernels::generic {

/// @brief A fixed-point number of 576 bits, in digits of 32 bits each: from 2^-288 to 2^288.
///
/// What a term has below 2^-288 is cut off. A term that is not finite, or of 2^288 or more, has no place. A
/// digit may be larger than its 32 bits, or negative, until it is carried.
struct ExactDigits {
  /// @brief Digits, from the lowest on, with a last one that counts what has no place.
  static constexpr std::size_t kCount = 19;
  /// @brief Of a digit.
  static constexpr int kBits = 32;
  /// @brief Bits behind the point.
  static constexpr int kFraction = 288;
  /// @brief The digit that counts what has no place.
  static constexpr std::size_t kNoPlace = kCount - 1;
  /// @brief Neighbouring digits that a term is added to, each by less than 2^33.
  static constexpr int kOfTerm = 3;

  /// @brief What a term adds.
  struct Term {
    /// @brief The first of its digits.
    std::size_t place;
    /// @brief To each of them.
    std::int64_t parts[kOfTerm];
  };

  /// @brief What a number adds.
  ULTRA_EVERYWHERE static constexpr Term term_of(double number) {
    constexpr int kMantissa = 52;  // without its first bit
    constexpr std::uint64_t kMask = 0xffffffff;
    const auto bits = __builtin_bit_cast(std::uint64_t, number);
    const int exponent = static_cast<int>(bits >> kMantissa & 0x7ff);
    // Of the mantissa's last bit, counted from the lowest bit that has a place.
    int place = (exponent == 0 ? 1 : exponent) - 1023 - kMantissa + kFraction;
    if (place > 2 * kFraction - kMantissa - 1) {
      return {kNoPlace - 2, {0, 0, 1}};
    }
    std::uint64_t mantissa = bits & ((std::uint64_t{1} << kMantissa) - 1);
    if (exponent != 0) {
      mantissa |= std::uint64_t{1} << kMantissa;
    }
    if (place < 0) {
      mantissa = place <= -64 ? 0 : mantissa >> -place;
      place = 0;
    }
    const int shift = place % kBits;
    const std::uint64_t low = (mantissa & kMask) << shift;
    const std::uint64_t high = (mantissa >> kBits) << shift;
    const std::int64_t sign = bits >> 63 == 0 ? 1 : -1;
    return {static_cast<std::size_t>(place / kBits),
            {sign * static_cast<std::int64_t>(low & kMask),
             sign * static_cast<std::int64_t>((low >> kBits) + (high & kMask)),
             sign * static_cast<std::int64_t>(high >> kBits)}};
  }

  /// @brief Brings digit `index` into its 32 bits, unless nothing is above it.
  /// @return what the next digit gets.
  ULTRA_EVERYWHERE static constexpr std::int64_t carry(std::size_t index, std::int64_t& digit) {
    if (index + 1 >= kNoPlace) {
      return 0;
    }
    const std::int64_t up = digit >> kBits;  // towards minus infinity
    digit -= up * (std::int64_t{1} << kBits);
    return up;
  }
};

}  // namespace ultra::kernels::generic

#undef ULTRA_EVERYWHERE

#pragma once
/// @file
/// ExactDigits: a sum of f64 numbers without rounding, whatever their order and whoever adds them.

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
/// digit may be larger than its 32 bits, or negative, until carry() brings that up.
struct ExactDigits {
  /// @brief Digits, with a last one that counts what has no place.
  static constexpr std::size_t kCount = 19;
  /// @brief Of a digit.
  static constexpr int kBits = 32;
  /// @brief Bits behind the point.
  static constexpr int kFraction = 288;
  /// @brief The digit that counts what has no place.
  static constexpr std::size_t kNoPlace = kCount - 1;

  /// @brief From the lowest on.
  std::int64_t digits[kCount] = {};
  /// @brief Terms since the last carry.
  std::size_t added = 0;

  /// @brief Adds a number.
  ULTRA_EVERYWHERE constexpr void add(double term) {
    constexpr int kMantissa = 52;                             // without its first bit
    constexpr std::size_t kMostAdded = std::size_t{1} << 29;  // each adds less than 2^33 to a digit
    constexpr std::uint64_t kMask = 0xffffffff;
    const auto bits = __builtin_bit_cast(std::uint64_t, term);
    const int exponent = static_cast<int>(bits >> kMantissa & 0x7ff);
    // Of the mantissa's last bit, counted from the lowest bit that has a place.
    int place = (exponent == 0 ? 1 : exponent) - 1023 - kMantissa + kFraction;
    if (place > 2 * kFraction - kMantissa - 1) {
      ++digits[kNoPlace];
      return;
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
    std::int64_t* const digit = digits + place / kBits;
    digit[0] += sign * static_cast<std::int64_t>(low & kMask);
    digit[1] += sign * static_cast<std::int64_t>((low >> kBits) + (high & kMask));
    digit[2] += sign * static_cast<std::int64_t>(high >> kBits);
    if (++added == kMostAdded) {
      carry();
    }
  }

  /// @brief Brings every digit but the highest into its 32 bits.
  ULTRA_EVERYWHERE constexpr void carry() {
    for (std::size_t i = 0; i + 1 < kNoPlace; ++i) {
      const std::int64_t up = digits[i] >> kBits;  // towards minus infinity
      digits[i] -= up * (std::int64_t{1} << kBits);
      digits[i + 1] += up;
    }
    added = 0;
  }
};

}  // namespace ultra::kernels::generic

#undef ULTRA_EVERYWHERE

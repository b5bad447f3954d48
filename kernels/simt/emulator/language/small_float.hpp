#pragma once
/// @file
/// Floating-point formats of 16 and 8 bits for the emulator: conversions from and to float as the
/// GPU's instructions make them. Arithmetic is done in float, as kernels do it.
///
/// One format for all: a sign, then an exponent, then the significand's fraction. Conversions round to
/// the nearest value, ties to the even one; every NaN becomes the one with all bits set but the sign,
/// as CUDA's conversions give it.

#include <bit>
#include <cstdint>
#include <type_traits>

namespace ultra::simt::emulator {

/// @brief What a conversion does with a value that is too large.
enum class Overflow {
  /// @brief It becomes infinite.
  kInfinity,
  /// @brief It becomes the largest finite value; an infinite one too.
  kSaturate,
};

/// @brief A format by its widths. `largest` is the bit pattern of the largest finite value.
template <int exponent_bits, int fraction_bits, std::uint32_t largest, Overflow overflow>
class SmallFloat {
 public:
  /// @brief What holds the bits.
  using Bits = std::conditional_t<(exponent_bits + fraction_bits < 8), std::uint8_t, std::uint16_t>;

  /// @brief Left as it is in memory, so that shared arrays need no constructor.
  SmallFloat() = default;
  /// @brief The nearest value.
  constexpr explicit SmallFloat(float value) : bits_(encode(value)) {}
  /// @brief The exact value.
  constexpr explicit operator float() const { return decode(); }

  /// @brief The value with these bits.
  static constexpr SmallFloat from_bits(Bits bits) {
    SmallFloat value(0.0F);
    value.bits_ = bits;
    return value;
  }
  /// @brief The bits.
  [[nodiscard]] constexpr Bits bits() const { return bits_; }

 private:
  static constexpr int kLeastExponent = 2 - (1 << (exponent_bits - 1));
  static constexpr int kSignShift = exponent_bits + fraction_bits;
  static constexpr std::uint32_t kNan = (1U << kSignShift) - 1;

  static constexpr Bits encode(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = bits & 0x7fffffffU;
    const std::uint32_t sign = bits >> 31 << kSignShift;
    if (magnitude > 0x7f800000U) {
      return static_cast<Bits>(kNan);
    }
    if (magnitude == 0x7f800000U) {
      return static_cast<Bits>(sign | too_large());
    }
    return static_cast<Bits>(sign | rounded(magnitude));
  }

  // The bits of a finite magnitude: its significand loses the bits that do not fit. Below the least
  // exponent, values are multiples of the smallest one, and more bits are lost.
  static constexpr std::uint32_t rounded(std::uint32_t magnitude) {
    const bool normal = magnitude >= 0x00800000U;
    const int exponent = normal ? static_cast<int>(magnitude >> 23) - 127 : -126;
    const std::uint32_t significand = (magnitude & 0x007fffffU) | (normal ? 0x00800000U : 0U);
    const int above_least = exponent - kLeastExponent;
    const int lost = 23 - fraction_bits + (above_least < 0 ? -above_least : 0);
    if (lost > 25) {
      return 0;
    }
    const std::uint32_t is_odd = significand >> lost & 1U;
    const std::uint32_t kept = (significand + (1U << (lost - 1)) - 1 + is_odd) >> lost;
    // A carry out of the fraction is right as it is: it adds one to the exponent.
    const std::uint32_t result =
        kept + (above_least > 0 ? static_cast<std::uint32_t>(above_least) << fraction_bits : 0U);
    return result > largest ? too_large() : result;
  }

  static constexpr std::uint32_t too_large() {
    return overflow == Overflow::kSaturate ? largest : largest + 1;
  }

  [[nodiscard]] constexpr float decode() const {
    const std::uint32_t magnitude = bits_ & kNan;
    const std::uint32_t sign = static_cast<std::uint32_t>(bits_) >> kSignShift << 31;
    const bool infinite = overflow == Overflow::kInfinity ? magnitude == largest + 1
                                                          : is_infinity_of_8_bits(magnitude);
    if (infinite) {
      return std::bit_cast<float>(sign | 0x7f800000U);
    }
    if (magnitude > largest) {
      return std::bit_cast<float>(sign | 0x7fffffffU);
    }
    const std::uint32_t field = magnitude >> fraction_bits;
    const std::uint32_t fraction = magnitude & ((1U << fraction_bits) - 1);
    if (field == 0) {
      const float value = static_cast<float>(fraction) * power_of_two(kLeastExponent) /
                          static_cast<float>(1U << fraction_bits);
      return sign != 0 ? -value : value;
    }
    const std::uint32_t exponent = field - 1 + static_cast<std::uint32_t>(kLeastExponent + 127);
    return std::bit_cast<float>(sign | exponent << 23 | fraction << (23 - fraction_bits));
  }

  // e5m2 has an infinity between its largest value and its NaNs, e4m3 has none.
  static constexpr bool is_infinity_of_8_bits(std::uint32_t magnitude) {
    return exponent_bits == 5 && magnitude == largest + 1;
  }

  static constexpr float power_of_two(int exponent) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(exponent + 127) << 23);
  }

  Bits bits_;
};

}  // namespace ultra::simt::emulator

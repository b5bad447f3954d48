#pragma once
/// @file
/// NumberFormat: a floating-point format, described by its bits; and what follows from them.
///
/// A number is sign, exponent and fraction. With a biased exponent e that is not 0 its magnitude is
/// 2^(e - bias) * 1.fraction; with e = 0 it is subnormal, 2^(1 - bias) * 0.fraction: evenly spaced
/// down to zero. What the largest exponent means is where formats differ.
///
/// Source: IEEE 754-2019, sec. 3 and 4.3.1; Micikevicius et al. 2022, "FP8 formats for deep learning", arXiv
/// 2209.05433, sec. 3; OCP Microscaling Formats (MX) v1.0, sec. 5.3.

#include <array>
#include <cstdint>
#include <string_view>

namespace ultra::mixed_precision {

/// @brief What codes of the largest exponent mean.
enum class TopExponent : std::uint8_t {
  kInfinityAndNan,  ///< no numbers: infinity, and NaN for every fraction but 0
  kOneNan,          ///< numbers; only all ones is NaN, and nothing is infinite
  kNumbers,         ///< numbers, all of them: neither NaN nor infinity
};

/// @brief A format of one sign bit, exponent and fraction.
struct NumberFormat {
  std::string_view name;  ///< as the field writes it
  int exponent_bits;      ///< of the biased exponent
  int fraction_bits;      ///< after the implied one
  TopExponent top;        ///< what the largest exponent means

  /// @brief Bits of a number.
  [[nodiscard]] constexpr int bits() const { return 1 + exponent_bits + fraction_bits; }
  /// @brief What is subtracted from the stored exponent.
  [[nodiscard]] constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  /// @brief Exponent of the largest numbers.
  [[nodiscard]] int max_exponent() const;
  /// @brief The largest finite number.
  [[nodiscard]] double largest() const;
  /// @brief The smallest normal number.
  [[nodiscard]] double smallest_normal() const;
  /// @brief The smallest number above 0.
  [[nodiscard]] double smallest_subnormal() const;
  /// @brief Distance from 1 to the next number.
  [[nodiscard]] double epsilon() const;
  /// @brief Finite numbers, with both zeros counted as one.
  [[nodiscard]] std::uint64_t finite_numbers() const;
  /// @brief Whether there is an infinity.
  [[nodiscard]] bool has_infinity() const { return top == TopExponent::kInfinityAndNan; }
};

/// IEEE single precision.
inline constexpr NumberFormat kFp32{"fp32", 8, 23, TopExponent::kInfinityAndNan};
/// What tensor cores of Nvidia's Ampere and later make of fp32 factors.
inline constexpr NumberFormat kTf32{"tf32", 8, 10, TopExponent::kInfinityAndNan};
/// Brain floating point: the upper half of fp32.
inline constexpr NumberFormat kBf16{"bf16", 8, 7, TopExponent::kInfinityAndNan};
/// IEEE half precision.
inline constexpr NumberFormat kFp16{"fp16", 5, 10, TopExponent::kInfinityAndNan};
/// fp8 for weights and activations.
inline constexpr NumberFormat kFp8E4m3{"fp8 e4m3", 4, 3, TopExponent::kOneNan};
/// fp8 for gradients.
inline constexpr NumberFormat kFp8E5m2{"fp8 e5m2", 5, 2, TopExponent::kInfinityAndNan};
/// fp6 of MX with the wider range.
inline constexpr NumberFormat kFp6E3m2{"fp6 e3m2", 3, 2, TopExponent::kNumbers};
/// fp6 of MX with the finer steps.
inline constexpr NumberFormat kFp6E2m3{"fp6 e2m3", 2, 3, TopExponent::kNumbers};
/// fp4 of MX.
inline constexpr NumberFormat kFp4E2m1{"fp4 e2m1", 2, 1, TopExponent::kNumbers};

/// All of them, widest first.
inline constexpr std::array kNumberFormats = {kFp32,    kTf32,    kBf16,    kFp16,   kFp8E4m3,
                                              kFp8E5m2, kFp6E3m2, kFp6E2m3, kFp4E2m1};

/// @brief The number that a code stands for; every format here is a part of f64.
/// @param code  the format's bits, in the lowest places; those above are ignored.
[[nodiscard]] double decode(const NumberFormat& format, std::uint32_t code);

/// @brief What becomes of numbers beyond the largest.
enum class Overflow : std::uint8_t {
  kInfinity,  ///< those that round beyond it become infinite
  kSaturate,  ///< they become the largest, and so does infinity
};

/// @brief The bits of the nearest fp16 number; NaN stays NaN, with its sign.
///
/// The rounding is left to an addition: the sum of a number with another whose last place is that of
/// the format is rounded by the processor, to nearest and ties to even, to just that place.
[[nodiscard]] std::uint16_t fp16_from_f32(float x, Overflow overflow = Overflow::kInfinity);

/// @brief The number of these bits: exact.
[[nodiscard]] float f32_from_fp16(std::uint16_t bits);

/// @brief The code of the nearest e5m2 number; NaN stays NaN, with its sign.
[[nodiscard]] std::uint8_t e5m2_from_f32(float x, Overflow overflow = Overflow::kInfinity);

}  // namespace ultra::mixed_precision

#pragma once
/// @file
/// The inner loops of scaled_grid.hpp, for runs of numbers that share a scale.

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "chapters/10_mixed_precision/block_formats/scales.hpp"

namespace ultra::mixed_precision {

/// @brief The type that numbers of a stored type are rounded in: f64 for f64, else f32.
template <class T>
using GridReal = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// @brief A format's figures, as constants of the loops.
template <Fp8 format>
struct Fp8Figures {
  static constexpr int kFractionBits = format == Fp8::kE4m3 ? 3 : 2;      ///< after the point
  static constexpr int kBias = format == Fp8::kE4m3 ? 7 : 15;             ///< of the exponent
  static constexpr double kLargest = format == Fp8::kE4m3 ? 448 : 57344;  ///< number
  static constexpr double kSmallestNormal = format == Fp8::kE4m3 ? 0x1p-6 : 0x1p-14;  ///< number
  static constexpr double kSmallestStep = format == Fp8::kE4m3 ? 0x1p-9 : 0x1p-16;    ///< apart
};

/// @brief A number in the range of the format becomes the nearest of its numbers, saturating.
template <Fp8 format, std::floating_point Real>
[[nodiscard]] inline Real round_to_grid(Real x) {
  using Bits = std::conditional_t<std::is_same_v<Real, double>, std::uint64_t, std::uint32_t>;
  using Figures = Fp8Figures<format>;
  constexpr int kDigits = std::numeric_limits<Real>::digits - 1;
  constexpr int kDropped = kDigits - Figures::kFractionBits;
  constexpr Bits kSign = Bits{1} << (sizeof(Bits) * 8 - 1);
  // A sum with this number has the last place of the subnormal numbers.
  constexpr Real kWhole = static_cast<Real>(Figures::kSmallestStep) * (Bits{1} << kDigits);

  const auto bits = std::bit_cast<Bits>(x);
  const Real all = std::bit_cast<Real>(bits & ~kSign);
  const auto largest = static_cast<Real>(Figures::kLargest);
  const Real magnitude = all > largest ? largest : all;  // a NaN passes
  const auto whole_bits = std::bit_cast<Bits>(magnitude);
  const Bits odd = whole_bits >> kDropped & 1U;
  const Bits carried = (whole_bits + (Bits{1} << (kDropped - 1)) - 1 + odd) >> kDropped << kDropped;
  const Real normal = std::bit_cast<Real>(carried);
  const Real subnormal = (magnitude + kWhole) - kWhole;
  const Real rounded = magnitude < static_cast<Real>(Figures::kSmallestNormal) ? subnormal : normal;
  const Real kept = magnitude == magnitude ? rounded : magnitude;
  return std::bit_cast<Real>(std::bit_cast<Bits>(kept) | (bits & kSign));
}

/// @brief out = x on the grid of `scale`.
template <Fp8 format, class T>
void round_run(const T* x, T* out, std::size_t count, float scale) {
  using Real = GridReal<T>;
  const Real up = static_cast<Real>(scale);
  const Real down = Real{1} / up;
  for (std::size_t i = 0; i < count; ++i) {
    const Real rounded = round_to_grid<format>(static_cast<Real>(x[i]) * up) * down;
    if constexpr (std::is_floating_point_v<T>) {
      out[i] = rounded;
    } else {  // bf16: its lower half is zero
      out[i].bits = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(rounded) >> 16U);
    }
  }
}

/// @brief The largest magnitude of a run; NaN is passed over.
///
/// Magnitudes are compared by their bits, which are in the same order: so the loop vectorises.
template <class T>
[[nodiscard]] float amax_of_run(const T* x, std::size_t count) {
  using Real = GridReal<T>;
  using Bits = std::conditional_t<std::is_same_v<Real, double>, std::uint64_t, std::uint32_t>;
  constexpr Bits kSign = Bits{1} << (sizeof(Bits) * 8 - 1);
  constexpr auto kInfinity = std::bit_cast<Bits>(std::numeric_limits<Real>::infinity());
  Bits largest = 0;
#pragma omp simd reduction(max : largest)
  for (std::size_t i = 0; i < count; ++i) {
    const Bits magnitude = std::bit_cast<Bits>(static_cast<Real>(x[i])) & ~kSign;
    const Bits number = magnitude > kInfinity ? 0 : magnitude;
    largest = number > largest ? number : largest;
  }
  return static_cast<float>(std::bit_cast<Real>(largest));
}

/// @brief The codes of a run on the grid.
template <Fp8 format, class T>
void pack_run(const T* x, std::uint8_t* codes, std::size_t count, float scale) {
  using Figures = Fp8Figures<format>;
  constexpr unsigned kDropped = 23 - Figures::kFractionBits;
  constexpr std::uint32_t kBiases = std::uint32_t{127 - Figures::kBias} << Figures::kFractionBits;
  constexpr std::uint32_t kNan = 0x7F;
  for (std::size_t i = 0; i < count; ++i) {
    const float number = static_cast<float>(x[i]) * scale;
    const auto bits = std::bit_cast<std::uint32_t>(number);
    const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
    const float size = std::bit_cast<float>(magnitude);
    const std::uint32_t normal = (magnitude >> kDropped) - kBiases;
    const auto steps = static_cast<std::uint32_t>(static_cast<std::int32_t>(
        (size < 1.0F ? size : 0.0F) * static_cast<float>(1 / Figures::kSmallestStep)));
    const bool is_small = size < static_cast<float>(Figures::kSmallestNormal);
    const std::uint32_t code = magnitude > 0x7F800000U ? kNan : (is_small ? steps : normal);
    codes[i] = static_cast<std::uint8_t>((bits >> 24U & 0x80U) | code);
  }
}

}  // namespace ultra::mixed_precision

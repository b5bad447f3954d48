#pragma once
/// @file
/// The dynamic map: 256 numbers from -1 or 0 to 1, dense where a block's numbers are.
///
/// Moments of one block differ by orders of magnitude. A code's leading zeros say by which power of
/// ten a number is below the largest, and the bits after them which step of that decade it is:
/// seven decades, the higher ones in finer steps.
///
/// Source: Dettmers et al. 2021, "8-bit optimizers via block-wise quantization", arXiv 2110.02861,
/// sec. 1.3 and 2.2 (dynamic tree quantization); the values are those of the bitsandbytes library.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace ultra::mixed_precision {

/// Numbers of a map.
inline constexpr std::size_t kMapNumbers = 256;

/// @brief The numbers of a map, ascending; the last is 1.
using DynamicMap = std::array<float, kMapNumbers>;

/// @brief Both signs: 127 negative numbers, 0, 128 positive ones.
[[nodiscard]] const DynamicMap& signed_map();

/// @brief No negative numbers: 0 and 255 positive ones, in steps half as large.
[[nodiscard]] const DynamicMap& unsigned_map();

/// @brief Finds the nearest number of a map.
///
/// The first bits of a number (sign, exponent, seven of the fraction) say of which two neighbouring
/// places one must be the nearest: a table, then one comparison.
class NearestPlaces {
 public:
  /// @param map  outlives this.
  explicit NearestPlaces(const DynamicMap& map);

  /// @brief The place of the nearest number.
  /// @param x  from -1 to 1; beyond, the nearest end. A NaN gives some place.
  [[nodiscard]] std::uint8_t operator()(float x) const {
    const std::uint8_t place = first_[cell_of(x)];
    return static_cast<std::uint8_t>(place + (x > middle_[place] ? 1 : 0));
  }

 private:
  static constexpr std::uint32_t kFractionBits = 7;
  static constexpr std::uint32_t kDropped = 23 - kFractionBits;
  static constexpr std::uint32_t kLowest = (127U - 24U)
                                           << kFractionBits;        // nearer to 0 than to any
  static constexpr std::uint32_t kHighest = 127U << kFractionBits;  // 1 and more
  static constexpr std::uint32_t kCells = kHighest - kLowest + 1;   // of each sign

  [[nodiscard]] static std::uint32_t cell_of(float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t size = (bits & 0x7FFFFFFFU) >> kDropped;
    return std::clamp(size, kLowest, kHighest) - kLowest + (bits >> 31U) * kCells;
  }

  std::array<std::uint8_t, 2 * kCells> first_{};  // by cell: the lower of the two places
  std::array<float, kMapNumbers> middle_{};       // between a place and the next
};

}  // namespace ultra::mixed_precision

#pragma once
/// @file
/// AdamW's moments in eight bits: a code of the dynamic map each, and one scale for a block.
///
/// The largest number of a block is its scale, and exact: its code stands for 1. Blocks keep an
/// outlier's damage to themselves, and can be worked on without knowing any other.
///
/// Source: Dettmers et al. 2021, arXiv 2110.02861, sec. 2. Deviations: a scale has the sign of the
/// block's largest number, so that this number is exact whichever sign it has; and a second moment
/// that is not 0 does not become 0, for the update is divided by its root.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "chapters/10_mixed_precision/optimizer_states/stored_states.hpp"
#include "common/optim/state_store.hpp"

namespace ultra::mixed_precision {

/// Numbers of a dynamic map.
inline constexpr std::size_t kMapNumbers = 256;

/// @brief The numbers of a dynamic map, ascending, from -1 or 0 to 1: dense where a block's numbers are.
///
/// Moments of one block differ by orders of magnitude. A code's leading zeros say by which power of
/// ten a number is below the largest, and the bits after them which step of that decade it is:
/// seven decades, the higher ones in finer steps.
///
/// Source: Dettmers et al. 2021, sec. 1.3 and 2.2 (dynamic tree quantization); the values are those of
/// the bitsandbytes library.
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

/// Numbers that share a scale, unless said otherwise; the paper's are 2048.
inline constexpr std::size_t kMomentBlock = 256;

/// @brief Moments in eight bits, quantised after each step.
///
/// Blocks are those of each tensor that a rank updates, so a sharded optimizer has others than a whole
/// one: the same values within the format's error, not the same bits.
/// @param block  numbers that share a scale; at least 1.
[[nodiscard]] std::unique_ptr<optim::StateStore> int8_moments(std::size_t block = kMomentBlock);

/// @brief Bytes of both moments of a tensor of n elements: 2 n, each filled up to words, and 8 for each
/// block.
[[nodiscard]] std::size_t int8_moment_bytes(std::size_t elements, std::size_t block = kMomentBlock);

/// @brief Writes the codes and the scales of numbers.
/// @param x       [n].
/// @param codes   [n].
/// @param scales  [ceil(n / block)]: NaN for a block that is not finite.
void quantize_moment(std::span<const float> x, optim::Signs signs, std::size_t block,
                     std::span<std::uint8_t> codes, std::span<float> scales);

/// @brief Writes the numbers of codes.
/// @param x  [n].
void dequantize_moment(std::span<const std::uint8_t> codes, std::span<const float> scales,
                       optim::Signs signs, std::size_t block, std::span<float> x);

}  // namespace ultra::mixed_precision

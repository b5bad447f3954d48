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

#include <cstddef>
#include <memory>
#include <span>

#include "chapters/10_mixed_precision/optimizer_states/stored_states.hpp"
#include "common/optim/state_store.hpp"

namespace ultra::mixed_precision {

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

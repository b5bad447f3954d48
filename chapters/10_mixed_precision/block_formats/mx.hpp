#pragma once
/// @file
/// MX: blocks of 32 numbers of few bits, with a power of two as their scale.
///
/// The scale is one byte, e8m0: an exponent and nothing else. So it can neither round a number nor
/// make its block fit exactly: the largest number of a block lies anywhere in the format's highest
/// binade, and beyond 448 it saturates.
///
/// Source: Open Compute Project, "Microscaling Formats (MX) v1.0", sec. 5 and 6.3; Rouhani et al.
/// 2023, "Microscaling data formats for deep learning", arXiv 2310.10537.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "chapters/10_mixed_precision/block_formats/scales.hpp"

namespace ultra::mixed_precision {

/// Numbers that share a scale.
inline constexpr std::size_t kMxBlock = 32;

/// @brief The scale of an e8m0 code: 2^(code - 127); NaN for 255.
[[nodiscard]] float f32_from_e8m0(std::uint8_t code);

/// @brief The e8m0 code of a block's scale: the power of two that brings the block's largest number
/// into the format's highest binade.
/// @param amax  largest magnitude of the block: 0 gives the smallest scale, infinity or NaN the code
///              of NaN.
[[nodiscard]] std::uint8_t mx_scale(float amax, Fp8 format);

/// @brief Numbers in MXFP8.
struct MxNumbers {
  Fp8 format = Fp8::kE4m3;           ///< of the codes
  std::vector<std::uint8_t> codes;   ///< [n]
  std::vector<std::uint8_t> scales;  ///< [ceil(n / 32)] e8m0

  /// @brief n + ceil(n / 32).
  [[nodiscard]] std::size_t bytes() const { return codes.size() + scales.size(); }
};

/// @brief Numbers in blocks of 32, in their order; the last block may be shorter.
[[nodiscard]] MxNumbers mx_quantize(std::span<const float> x, Fp8 format);

/// @brief The numbers back, [n]. A block with a number that was not finite is NaN as a whole.
[[nodiscard]] std::vector<float> mx_dequantize(const MxNumbers& numbers);

}  // namespace ultra::mixed_precision

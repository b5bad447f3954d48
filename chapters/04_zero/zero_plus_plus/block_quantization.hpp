#pragma once
/// @file
/// Block quantisation: numbers as small whole numbers, with one scale for each block of them.
///
/// A number becomes the nearest multiple of a scale, and only which multiple travels: 8 or 4 bits
/// instead of 32 or 64. The scale must reach as far as the largest number. With one scale for a whole
/// array a single outlier would leave nothing of all the others; with one for each few hundred
/// elements it spoils its own block only.
///
/// The numbers of a block of largest magnitude a, with integers from -q to q, q = 127 or 7:
/// scale = a / q, and the error of each is at most scale / 2.
///
/// Exercise 04.10 (`./workbook check 04.10`). Body: solutions/04_zero/block_quantization.cpp.
/// Source: Wang et al. 2023, "ZeRO++", arXiv 2306.10209, section 3.1; symmetric, without a zero point.

#include <cstddef>

#include "common/tensor/tensor.hpp"

namespace ultra::zero {

/// @brief Bits of one quantised number; the value is their number.
enum class QuantizedBits : int {
  kFour = 4,   ///< whole numbers from -7 to 7
  kEight = 8,  ///< from -127 to 127
};

/// @brief How numbers are quantised.
struct BlockFormat {
  QuantizedBits bits = QuantizedBits::kEight;  ///< of each number
  std::size_t block = 256;                     ///< numbers that share a scale; at least 1
  bool operator==(const BlockFormat&) const = default;
};

/// Numbers of 4 bits that share a scale. They reach from 1 to 7, so a number becomes 0 next to one
/// that is 15 times as large, and a block must be small.
/// The price is one bit per number for scales of f32.
inline constexpr std::size_t kInt4Block = 32;

/// @brief The largest whole number: 127 or 7. The one below its negative stays unused, so that both
/// signs reach as far.
[[nodiscard]] constexpr int largest_of(QuantizedBits bits) {
  return (1 << (static_cast<int>(bits) - 1)) - 1;
}

/// @brief Bytes of a message of n numbers: ceil(n / block) scales of the numbers' own type, then
/// ceil(n bits / 8) bytes, filled up to a multiple of 4.
/// @param count  n; 0 needs no bytes.
/// @param dtype  of the numbers: f32 or f64.
[[nodiscard]] std::size_t quantized_bytes(const BlockFormat& format, std::size_t count,
                                          DType dtype);

/// @brief Writes numbers down as whole numbers and scales.
///
/// What dequantize() makes of them differs from x by at most scale / 2, up to rounding; 0 stays 0. A
/// block that holds NaN or infinity becomes NaN as a whole: nothing is hidden.
/// @param numbers  [n] of f32 or f64, contiguous, read.
/// @param message  [quantized_bytes(n) / 4] of i32, contiguous: every byte is written, the same
///                 bytes for the same numbers.
/// Cost: two passes over the numbers; no memory.
void quantize(const BlockFormat& format, const Tensor& numbers, const Tensor& message);

/// @brief Writes the numbers of a message: whole number times scale.
/// @param message  as quantize() wrote it, of n numbers of the type of `into`.
/// @param into     [n] of f32 or f64, contiguous, written.
void dequantize(const BlockFormat& format, const Tensor& message, const Tensor& into);

/// @brief Adds the numbers of a message to those that are there, in the type of `into`.
/// @param message  as for dequantize().
/// @param into     [n] of f32 or f64, contiguous.
void add_dequantized(const BlockFormat& format, const Tensor& message, const Tensor& into);

}  // namespace ultra::zero

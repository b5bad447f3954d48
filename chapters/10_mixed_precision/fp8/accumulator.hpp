#pragma once
/// @file
/// Sums of products as tensor cores make them: in f32, or with the few bits of Hopper's fp8 path.
///
/// Hopper's tensor cores shift the products of an fp8 instruction right until they have the largest
/// one's exponent, and keep about 14 bits of each. What falls off is lost, not rounded. Over a long
/// sum the loss grows, because the sum does and the products do not.
///
/// Source: DeepSeek-V3, arXiv 2412.19437, sec. 3.5.2 ("higher FP8 GEMM accumulation precision in
/// tensor cores") and 3.3.2. Deviation: the hardware's exact scheme is not published; this one aligns
/// 32 products and the sum so far to the largest of them and cuts what lies below.

#include <cstddef>
#include <cstdint>
#include <span>

namespace ultra::mixed_precision {

/// @brief How a sum of products is kept.
enum class Accumulator : std::uint8_t {
  kF32,      ///< f32: each sum rounded to nearest
  kFewBits,  ///< 14 bits, cut off, as Hopper's tensor cores do in fp8
};

/// Bits of a sum of kFewBits, with the leading one.
inline constexpr int kAccumulatorBits = 14;
/// Products that a tensor core's instruction adds at once.
inline constexpr std::size_t kInstructionProducts = 32;

/// @brief A running sum of products.
class ProductSum {
 public:
  /// @brief Begins at 0.
  explicit ProductSum(Accumulator accumulator) : accumulator_(accumulator) {}

  /// @brief Adds products of fp8 numbers, which f32 holds exactly.
  /// @param products  those of one instruction; at most kInstructionProducts.
  void add(std::span<const float> products);

  /// @brief The sum so far.
  [[nodiscard]] float value() const { return static_cast<float>(sum_); }

 private:
  void add_few_bits(std::span<const float> products);

  Accumulator accumulator_;
  double sum_ = 0.0;
};

}  // namespace ultra::mixed_precision

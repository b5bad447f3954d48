#pragma once
/// @file
/// Sums that become one number, in f64 and in an order that depends on the number of terms alone; or exactly.

#include <cstddef>
#include <cstdint>

#include "kernels/generic/elements/exact_digits.hpp"
#include "kernels/generic/numbers.hpp"

namespace ultra::kernels::generic {

/// @brief Whether a result replaces what its place held or is added to it.
enum class Write : unsigned char { kOverwrite, kAdd };

/// @brief Terms of a leaf, of a sum that follows no tree: all.
inline constexpr std::size_t kOneLeaf = ~std::size_t{0};

/// @brief Elements of the scratch that sum_of_squares() takes, one for each of its blocks: at most four
/// for each multiprocessor of an H100, which together have more bytes on their way than its memory needs.
constexpr std::size_t partial_sums(std::size_t count) {
  constexpr std::size_t kTermsOfBlock = 256 * 32;
  constexpr std::size_t kMost = 4 * 132;
  const std::size_t blocks = (count + kTermsOfBlock - 1) / kTermsOfBlock;
  return blocks < 1 ? 1 : blocks < kMost ? blocks : kMost;
}

/// @brief sum = or += the squares of `count` elements.
/// @param sum       one number.
/// @param partials  [partial_sums(count)] of scratch.
template <simt::Executor executor>
void sum_of_squares(double* sum, const Source& x, std::size_t count, double* partials, Write write,
                    const simt::Queue& queue);

/// @brief sum = or += the sum of `count` terms, times `factor`.
template <simt::Executor executor>
void sum_of(double* sum, const double* terms, std::size_t count, double factor, Write write,
            const simt::Queue& queue);

/// @brief What an exact sum is of.
enum class Terms : unsigned char { kNumbers, kSquares };

/// @brief digits = or += the digits of the exact sum of `count` numbers, or of their squares in f64.
/// @param digits    [ExactDigits::kCount].
/// @param partials  [partial_sums(count), ExactDigits::kCount] of scratch.
template <simt::Executor executor>
void exact_sum_of(double* digits, const Source& x, std::size_t count, Terms terms,
                  std::int64_t* partials, Write write, const simt::Queue& queue);

}  // namespace ultra::kernels::generic

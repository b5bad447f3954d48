// Exercise 03.5: top-k with error feedback.
//
// Goal:        send one gradient entry in a hundred, and lose nothing: what is left out today is sent
//              later.
// Length:      about 20 lines
// Difficulty:  medium
// Check:       ./workbook check 03.5
// Hints:       ./workbook hint 03.5
// Targets:     k = ceil(fraction * n): at least one entry of any gradient;
//              the k entries of largest magnitude, the lower position first among equals, without a
//              sort: O(n);
//              message and new residual of a step hold gradient and old residual: over many steps
//              nothing is lost (exactly in whole numbers, which have no rounding)
//
// chapters/03_data_parallel/top_k_feedback.hpp declares the functions. A Compressor
// (chapters/03_data_parallel/compression/compressor.hpp) writes C(x) to a message, and adds 1 or -1
// times C(x) to a tensor; common/ops/elementwise.hpp adds tensors.
#include "chapters/03_data_parallel/top_k_feedback.hpp"

#include "common/base/errors.hpp"

namespace ultra::data_parallel {

// TODO 1: ceil(fraction * count). What becomes of a gradient of 50 entries with floor and a hundredth?
std::size_t kept_entries([[maybe_unused]] double fraction, [[maybe_unused]] std::size_t count) {
  throw NotWritten("03.5 kept_entries");
}

// TODO 2: find the kept-th largest magnitude without sorting (std::nth_element), then walk over the
//         entries in order. How many of those that equal it may you take? NaN counts as infinite:
//         with it as it is, nth_element has no order to work with.
template <FloatingScalar T>
std::vector<std::uint32_t> largest_entries([[maybe_unused]] std::span<const T> entries,
                                           [[maybe_unused]] std::size_t kept) {
  throw NotWritten("03.5 largest_entries");
}

template std::vector<std::uint32_t> largest_entries<float>(std::span<const float>, std::size_t);
template std::vector<std::uint32_t> largest_entries<double>(std::span<const double>, std::size_t);

// TODO 3: e' = g + e - C(g + e), in the residual's own memory. What must be in it when you compress?
void compress_with_feedback([[maybe_unused]] const Compressor& compressor,
                            [[maybe_unused]] const Tensor& gradient,
                            [[maybe_unused]] const Tensor& residual,
                            [[maybe_unused]] const Tensor& message) {
  throw NotWritten("03.5 compress_with_feedback");
}

}  // namespace ultra::data_parallel

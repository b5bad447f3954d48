// Exercise 03.5: top-k with error feedback.
//
// The k-th largest magnitude is found without a sort; one pass in order then takes what is above it,
// and as many of those equal to it as are left. So ties need no comparison of positions, and the
// positions come out in ascending order.
#include "chapters/03_data_parallel/top_k_feedback.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "common/base/numeric.hpp"
#include "common/ops/elementwise.hpp"

namespace ultra::data_parallel {
namespace {

template <FloatingScalar T>
T magnitude(T entry) {
  return std::isnan(entry) ? std::numeric_limits<T>::infinity() : std::abs(entry);
}

}  // namespace

std::size_t kept_entries(double fraction, std::size_t count) {
  return static_cast<std::size_t>(std::ceil(fraction * static_cast<double>(count)));
}

// [region largest_entries]
template <FloatingScalar T>
std::vector<std::uint32_t> largest_entries(std::span<const T> entries, std::size_t kept) {
  std::vector<std::uint32_t> positions;
  if (kept == 0) return positions;
  std::vector<T> magnitudes(entries.size());
  std::transform(entries.begin(), entries.end(), magnitudes.begin(), magnitude<T>);
  const auto last_kept = magnitudes.begin() + checked_cast<std::ptrdiff_t>(kept - 1);
  std::nth_element(magnitudes.begin(), last_kept, magnitudes.end(), std::greater<>());
  const T least = *last_kept;
  // In front of last_kept nothing is smaller, so what is not larger is a tie; so is last_kept.
  auto ties = 1 + std::count(magnitudes.begin(), last_kept, least);
  positions.reserve(kept);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const T m = magnitude(entries[i]);
    if (m > least || (m == least && ties-- > 0)) positions.push_back(static_cast<std::uint32_t>(i));
  }
  return positions;
}
// [/region]

template std::vector<std::uint32_t> largest_entries<float>(std::span<const float>, std::size_t);
template std::vector<std::uint32_t> largest_entries<double>(std::span<const double>, std::size_t);

// [region compress_with_feedback]
void compress_with_feedback(const Compressor& compressor, const Tensor& gradient,
                            const Tensor& residual, const Tensor& message) {
  ops::add_into(residual, gradient);                     // g + e
  compressor.compress(residual, message);                // C(g + e)
  compressor.add_decompressed(message, -1.0, residual);  // g + e - C(g + e)
}
// [/region]

}  // namespace ultra::data_parallel

#pragma once
/// @file
/// What benchmarks measure time with.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace ultra::bench {

/// @brief Seconds of a clock that only goes forward; differences count.
[[nodiscard]] inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// @brief The value in the middle; the upper one of two.
/// @pre at least one value.
[[nodiscard]] inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace ultra::bench

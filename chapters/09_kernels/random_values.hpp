#pragma once
/// @file
/// Random inputs of kernels.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

namespace ultra::ladders {

/// @brief `count` standard normal numbers; another name gives others.
[[nodiscard]] std::vector<float> normal_values(std::size_t count, std::uint64_t seed,
                                               std::string_view name);

/// @brief What an output holds before a kernel writes it: NaN.
[[nodiscard]] inline std::vector<float> poison(std::size_t count) {
  return std::vector<float>(count, std::numeric_limits<float>::quiet_NaN());
}

}  // namespace ultra::ladders

#pragma once
/// @file
/// Random inputs of kernels.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace ultra::ladders {

/// @brief `count` standard normal numbers; another name gives others.
[[nodiscard]] std::vector<float> normal_values(std::size_t count, std::uint64_t seed,
                                               std::string_view name);

}  // namespace ultra::ladders

#pragma once
/// @file
/// Random inputs of kernels.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace ultra::ladders {

/// @brief So many numbers are drawn; the next ones repeat them. Drawing hundreds of millions, as
/// large problems for a GPU have, would take longer than all kernels. The period is a prime: rows
/// and tiles that lie a round number of elements apart hold different numbers.
inline constexpr std::size_t kDrawnNumbers = 1048573;

/// @brief `count` standard normal numbers; another name gives others.
[[nodiscard]] std::vector<float> normal_values(std::size_t count, std::uint64_t seed,
                                               std::string_view name);

}  // namespace ultra::ladders

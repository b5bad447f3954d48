#pragma once
/// @file
/// Absolute positions of the rows of a sequence: a few runs of consecutive ones, or a list.

#include <cstddef>
#include <cstdint>
#include <span>

namespace ultra::kernels::generic {

/// @brief Runs that are passed along with a launch; what has more is a list in the device's memory.
inline constexpr int kMostRuns = 4;

/// @brief The position of each row of a sequence, ascending.
struct Positions {
  /// @brief Runs of consecutive positions; 0 when there is a list.
  int runs = 0;
  /// @brief The row behind each run.
  int ends[kMostRuns] = {};
  /// @brief A row's position less its number, for each run.
  int offsets[kMostRuns] = {};
  /// @brief One position for each row; null when there are runs.
  const std::int32_t* list = nullptr;
};

/// @brief The runs of a list of the host's; without runs when there are too many.
constexpr Positions runs_of(std::span<const std::int32_t> positions) {
  Positions result;
  for (std::size_t row = 0; row < positions.size(); ++row) {
    const int offset = positions[row] - static_cast<int>(row);
    if (result.runs == 0 || offset != result.offsets[result.runs - 1]) {
      if (result.runs == kMostRuns) {
        return {};
      }
      result.offsets[result.runs++] = offset;
    }
    result.ends[result.runs - 1] = static_cast<int>(row) + 1;
  }
  return result;
}

}  // namespace ultra::kernels::generic

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

/// @brief The row behind the run that begins at a row: blocks of rows are compared at once.
constexpr std::size_t end_of_run(std::span<const std::int32_t> positions, std::size_t row) {
  constexpr std::uint32_t kBlock = 64;
  const auto at = [&](std::size_t i) { return static_cast<std::uint32_t>(positions[i]); };
  std::uint32_t next = at(row);
  for (; row + kBlock <= positions.size(); row += kBlock, next += kBlock) {
    std::uint32_t differences = 0;  // of integers, which compilers compare in vectors
    for (std::uint32_t i = 0; i < kBlock; ++i) {
      differences |= at(row + i) ^ (next + i);
    }
    if (differences != 0) {
      break;
    }
  }
  for (; row < positions.size() && at(row) == next; ++row) {
    ++next;
  }
  return row;
}

/// @brief The runs of a list of the host's; without runs when there are too many.
constexpr Positions runs_of(std::span<const std::int32_t> positions) {
  Positions result;
  for (std::size_t row = 0; row < positions.size();) {
    if (result.runs == kMostRuns) {
      return {};
    }
    result.offsets[result.runs] = positions[row] - static_cast<int>(row);
    row = end_of_run(positions, row);
    result.ends[result.runs++] = static_cast<int>(row);
  }
  return result;
}

}  // namespace ultra::kernels::generic

#pragma once
/// @file
/// Formula: what the formulas of an exercise say of a rank's memory.

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "common/tensor/memory_tracker.hpp"

namespace ultra::train {

/// @brief What the formulas of one exercise say of the peaks of rank 0, by category.
struct Formula {
  std::string exercise;  ///< "01.1"
  std::array<std::optional<std::size_t>, kNumMemoryCategories> bytes =
      {};  ///< indexed by MemoryCategory; absent: it says nothing of that

  /// @brief Bytes of one category.
  [[nodiscard]] std::optional<std::size_t>& operator[](MemoryCategory category) {
    return bytes[static_cast<std::size_t>(category)];
  }
  /// @brief The same.
  [[nodiscard]] const std::optional<std::size_t>& operator[](MemoryCategory category) const {
    return bytes[static_cast<std::size_t>(category)];
  }
};

/// Those of all exercises that hold.
using Formulas = std::vector<Formula>;

}  // namespace ultra::train

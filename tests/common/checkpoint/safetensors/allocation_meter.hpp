#pragma once
/// @file
/// How much memory a thread asks for.

#include <cstddef>

namespace ultra::checkpoint {

/// @brief Adds up what this thread asks operator new for, from its construction on.
///
/// What is given back is not taken off: the sum is at least the most that was held at once.
class AllocationMeter {
 public:
  /// @brief Begins at zero.
  AllocationMeter();

  /// @brief Bytes asked for since.
  [[nodiscard]] std::size_t bytes() const;

 private:
  std::size_t before_;
};

}  // namespace ultra::checkpoint

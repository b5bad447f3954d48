#pragma once
/// @file
/// The copies from global to shared memory that each thread of the running block has in flight.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/simt/emulator/hooks.hpp"

namespace ultra::simt::emulator {

/// @brief A copy that has not landed.
struct CopyInFlight {
  /// @brief First byte of its destination.
  std::byte* destination;
  /// @brief Bytes that it writes.
  std::size_t size;
  /// @brief What it writes.
  std::array<std::byte, 16> value;
  /// @brief The number of its group, from 0.
  std::uint32_t group;
  /// @brief The line that issued it.
  SourceLine place;

  /// @brief Whether it writes any of these bytes.
  [[nodiscard]] bool meets(std::uintptr_t address, std::size_t bytes) const {
    const auto first = reinterpret_cast<std::uintptr_t>(destination);
    return address < first + size && first < address + bytes;
  }
};

/// @brief One thread's copies.
struct CopyQueue {
  /// @brief Those that have not landed, oldest first.
  std::vector<CopyInFlight> copies;
  /// @brief Groups made so far.
  std::uint32_t groups = 0;
};

}  // namespace ultra::simt::emulator

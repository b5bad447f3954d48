#pragma once
/// @file
/// Products that the tensor cores have not finished.

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "kernels/simt/emulator/async/clock.hpp"
#include "kernels/simt/emulator/async/hooks.hpp"

namespace ultra::simt::emulator {

/// @brief A warp's registers that products are added to.
struct Accumulator {
  /// @brief Where each lane has them.
  std::array<float*, 32> registers{};
  /// @brief Registers of a lane.
  std::size_t count = 0;
  /// @brief What they hold, or last held when the tensor cores gave them back: [lane][register].
  std::vector<float> values{};
  /// @brief Products that are not finished.
  int in_flight = 0;
};

/// @brief A warp's quarter of a product: 16 of its 64 rows.
struct ProductInFlight {
  /// @brief What lane 0 has asked for.
  Product product;
  /// @brief Its sums.
  Accumulator* sums;
  /// @brief Where each lane has its part of a, if in registers.
  std::array<const unsigned*, 32> left_registers;
  /// @brief What was there.
  std::array<std::array<unsigned, 4>, 32> left;
  /// @brief The number of its group, from 0.
  std::uint32_t group;
  /// @brief The line.
  Place place;
};

/// @brief What a warp multiplies.
struct WarpProducts {
  /// @brief Stands for what its products read: number g + 1 for group g.
  Slot slot = 0;
  /// @brief Groups made so far.
  std::uint32_t groups = 0;
  /// @brief Fences so far.
  std::uint32_t fences = 0;
  /// @brief Those at its last wait.
  std::uint32_t fences_at_wait = 0;
  /// @brief Products that are not finished, oldest first.
  std::deque<ProductInFlight> in_flight{};
  /// @brief By the address of lane 0's first register.
  std::map<const float*, Accumulator> sums{};
  /// @brief Its products so far.
  std::size_t issued = 0;
  /// @brief Of the first warp of a warpgroup: what the warpgroup's products are.
  std::vector<Product> issued_by_group{};
};

}  // namespace ultra::simt::emulator

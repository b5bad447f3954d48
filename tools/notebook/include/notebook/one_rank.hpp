#pragma once
/// @file
/// The world of a cell on one rank: needs no communication library.

#include "notebook/cell.hpp"

namespace ultra::notebook {

/// @brief The only rank of a world of one.
class World {
 public:
  [[nodiscard]] static constexpr int rank() { return 0; }
  [[nodiscard]] static constexpr int size() { return 1; }
};

template <class Function>
void run_ranks(int /*world_size*/, Function function) {
  World world;
  function(world);
}

}  // namespace ultra::notebook

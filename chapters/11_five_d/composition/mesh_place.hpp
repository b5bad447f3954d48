#pragma once
/// @file
/// MeshPlace: where a rank stands in the mesh of a setup.

#include <cstddef>

#include "common/train/cli/technique.hpp"

namespace ultra::five_d {

/// @brief Numbers along the axes: tp counts fastest, then cp, pp and dp.
struct MeshPlace {
  std::size_t replica = 0;  ///< along dp
  std::size_t stage = 0;    ///< along pp
  std::size_t context = 0;  ///< along cp
  std::size_t tensor = 0;   ///< along tp
};

/// @brief Where a rank of the mesh stands.
[[nodiscard]] MeshPlace place_of(const train::Setup& setup, std::size_t rank);

}  // namespace ultra::five_d

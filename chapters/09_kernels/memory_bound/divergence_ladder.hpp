#pragma once
/// @file
/// The ladder divergence: rotary position embedding, whose neighbours do different work.

#include <memory>

#include "chapters/09_kernels/ladder.hpp"

namespace ultra::ladders {

/// @brief Rotary position embedding; sizes are tokens x pairs of elements.
[[nodiscard]] std::unique_ptr<Ladder> divergence_ladder();

}  // namespace ultra::ladders

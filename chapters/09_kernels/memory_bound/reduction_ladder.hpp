#pragma once
/// @file
/// The ladder reduction: the norm of n values.

#include <memory>

#include "chapters/09_kernels/ladder.hpp"

namespace ultra::ladders {

/// @brief Norms of vectors, as gradient clipping needs them; the size is n.
[[nodiscard]] std::unique_ptr<Ladder> reduction_ladder();

}  // namespace ultra::ladders

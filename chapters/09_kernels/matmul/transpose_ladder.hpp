#pragma once
/// @file
/// The ladder transpose: out = in^T in fp32.

#include <memory>

#include "chapters/09_kernels/ladder.hpp"

namespace ultra::ladders {

/// @brief Transpositions; sizes are rows x columns of the input.
[[nodiscard]] std::unique_ptr<Ladder> transpose_ladder();

}  // namespace ultra::ladders

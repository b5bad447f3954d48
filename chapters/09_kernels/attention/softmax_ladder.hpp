#pragma once
/// @file
/// The ladder softmax: softmax over rows in fp32.

#include <memory>

#include "chapters/09_kernels/ladder.hpp"

namespace ultra::ladders {

/// @brief Softmax of every row; sizes are rows x columns.
[[nodiscard]] std::unique_ptr<Ladder> softmax_ladder();

}  // namespace ultra::ladders

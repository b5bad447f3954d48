#pragma once
/// @file
/// The ladder attention_bf16: the forward pass on tensor cores.

#include <memory>

#include "chapters/09_kernels/ladder.hpp"

namespace ultra::ladders {

/// @brief Attention's forward pass in bf16 on tensor cores; sizes and seeds as for attention_ladder().
[[nodiscard]] std::unique_ptr<Ladder> attention_bf16_ladder();

}  // namespace ultra::ladders

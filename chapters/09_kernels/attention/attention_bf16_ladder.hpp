#pragma once
/// @file
/// The ladder attention_bf16: the forward pass on tensor cores.

#include <memory>
#include <string>

#include "chapters/09_kernels/ladder.hpp"

namespace ultra::ladders {

/// @brief Attention's forward pass in bf16 on tensor cores; sizes and seeds as for attention_ladder().
[[nodiscard]] std::unique_ptr<Ladder> attention_bf16_ladder();

/// @brief Why rungs in bf16 refuse a problem; empty when they do not.
[[nodiscard]] std::string refuse_attention_bf16(const Sizes& sizes);

}  // namespace ultra::ladders

#pragma once
/// @file
/// The ladder attention_backward_bf16: the gradients of q, k and v on tensor cores.

#include <memory>

#include "chapters/09_kernels/ladder.hpp"

namespace ultra::ladders {

/// @brief Attention's backward pass in bf16 on tensor cores; sizes and seeds as for attention_ladder().
[[nodiscard]] std::unique_ptr<Ladder> attention_backward_bf16_ladder();

}  // namespace ultra::ladders

#pragma once
/// @file
/// The ladder attention_backward: the gradients of q, k and v in fp32.

#include <memory>

#include "chapters/09_kernels/ladder.hpp"

namespace ultra::ladders {

/// @brief Attention's backward pass in fp32 on CUDA cores; sizes and seeds as for attention_ladder().
[[nodiscard]] std::unique_ptr<Ladder> attention_backward_ladder();

}  // namespace ultra::ladders

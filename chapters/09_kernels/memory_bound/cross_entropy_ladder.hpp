#pragma once
/// @file
/// The ladder cross_entropy: cross-entropy of logits and its gradient.

#include <memory>

#include "chapters/09_kernels/ladder.hpp"

namespace ultra::ladders {

/// @brief Losses per token, and gradients in place of the logits, in fp32; sizes are
/// tokens x vocab.
[[nodiscard]] std::unique_ptr<Ladder> cross_entropy_ladder();

}  // namespace ultra::ladders

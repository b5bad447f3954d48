#pragma once
/// @file
/// The ladder swiglu: SwiGLU's activation.

#include <memory>

#include "chapters/09_kernels/ladder.hpp"

namespace ultra::ladders {

/// @brief silu(gate) up in fp32; sizes are tokens x ffn.
[[nodiscard]] std::unique_ptr<Ladder> swiglu_ladder();

}  // namespace ultra::ladders

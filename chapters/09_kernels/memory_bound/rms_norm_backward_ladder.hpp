#pragma once
/// @file
/// The ladder rms_norm_backward: the gradients of RMSNorm.

#include <memory>

#include "chapters/09_kernels/ladder.hpp"

namespace ultra::ladders {

/// @brief Gradients of RMSNorm in fp32; sizes are rows x hidden.
[[nodiscard]] std::unique_ptr<Ladder> rms_norm_backward_ladder();

}  // namespace ultra::ladders

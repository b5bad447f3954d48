#pragma once
/// @file
/// What the ladder adamw takes of a step of the optimizer.

#include "common/ops/adamw.hpp"
#include "kernels/adamw/adamw.hpp"

namespace ultra::ladders {

/// @brief The kernels' constants of a step.
[[nodiscard]] kernels::adamw::Constants kernel_constants(const ops::AdamWStep& step);

}  // namespace ultra::ladders

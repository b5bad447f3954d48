#pragma once
/// @file
/// The ladder adamw: one AdamW step of a model's tensors.

#include <memory>

#include "chapters/09_kernels/ladder.hpp"
#include "common/ops/adamw.hpp"
#include "kernels/adamw/adamw.hpp"

namespace ultra::ladders {

/// @brief AdamW steps; sizes are tensors x parameters of an average tensor.
[[nodiscard]] std::unique_ptr<Ladder> adamw_ladder();

/// @brief The kernels' constants of a step.
[[nodiscard]] kernels::adamw::Constants kernel_constants(const ops::AdamWStep& step);

}  // namespace ultra::ladders

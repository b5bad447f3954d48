#pragma once
/// @file
/// Between steps of delayed scaling: the ranks agree on the largest magnitudes.
///
/// Every rank has noted those of its own micro-batches and of its parts of tensors. The next scales must
/// be the same on all ranks that hold a layer, or a weight would be put on different grids.
/// Source: Transformer Engine's reduction of amax values over the data and tensor parallel ranks.

#include <memory>

#include "chapters/10_mixed_precision/fp8/fp8_recipe.hpp"
#include "common/train/step.hpp"

namespace ultra::mixed_precision {

/// @brief Takes the maximum of what all ranks of a stage have noted, and moves the histories on.
/// Collective over the ranks of dp, cp and tp, after each step, with delayed scaling; else it does
/// nothing.
///
/// After a step that loss scaling skips as well: its tensors were there, and scales follow tensors,
/// not updates. An infinite maximum counts as the latest that was none. What a validation notes is
/// forgotten.
/// Source: Transformer Engine keeps a scale as long as its history holds an infinite maximum.
/// Cost: an all-reduce of one f32 per tensor of the stage's fp8 layers.
[[nodiscard]] std::unique_ptr<train::StepObserver> observe_fp8(const train::ModelScope& scope,
                                                               const Fp8Recipe& recipe);

}  // namespace ultra::mixed_precision

#pragma once
/// @file
/// Delayed scaling: the scale of a tensor in fp8, from the maxima of the steps before.
///
/// A scale moves a tensor into the range of fp8. Its right value follows from the tensor's largest
/// magnitude (amax), which is known only when the whole tensor has been computed; so the scale of a
/// step is made from the maxima of earlier steps, and the tensor is written in fp8 as it is
/// computed. Within a step the scale stays: what was written with it is read with it.
///
/// A history is 1 + H numbers: place 0 gathers the largest magnitude of the step under way, places 1
/// to H hold those of the last H steps, the latest first; 0 where there was none.
///
/// Exercise 10.7 (`./workbook check 10.7`). Body: solutions/10_mixed_precision/delayed_scaling.cpp.
/// Source: Micikevicius et al. 2022, arXiv 2209.05433, sec. 5; Nvidia Transformer Engine's
/// DelayedScaling recipe (amax_compute_algo "max", margin).

#include <span>
#include <vector>

#include "chapters/10_mixed_precision/block_formats/scales.hpp"
#include "common/comm/communicator.hpp"
#include "common/tensor/device.hpp"

namespace ultra::mixed_precision {

/// @brief A tensor of the step under way has this largest magnitude.
/// @param history  [1 + H], changed.
void note_amax(std::span<float> history, float amax);

/// @brief The scale of the step under way, as power_of_two_scale() makes it; 1 while no step has ended.
/// @param history  [1 + H], H at least 1.
[[nodiscard]] float delayed_scale(std::span<const float> history, Fp8 format, int margin);

/// @brief The step is over: its maximum becomes the latest of the last H, the oldest is forgotten.
/// @param history  [1 + H], changed: ready to gather the next step's maximum.
void end_amax_step(std::span<float> history);

/// @brief The step is over on all ranks that hold these tensors: each history ends its step with the
/// largest magnitude that any of the ranks has noted. So all have the same scales, and a weight lies
/// on one grid.
///
/// A largest magnitude that is not finite says nothing about the steps to come, whose loss scale
/// will be lower: the latest of the steps before, place 1, stands in for it.
/// @param histories  each [1 + H], changed; of the same tensors in the same order on every rank.
/// @param host       memory of the host, for what travels.
/// Collective over ranks: Communicator::all_reduce with ReduceOp::kMax, once for all histories; on one
/// rank nothing travels.
void end_amax_steps(const std::vector<std::span<float>>& histories, const Communicator& ranks,
                    const Device& host);

}  // namespace ultra::mixed_precision

#pragma once
/// @file
/// The table after a training: bytes that ranks kept and sent, measured, beside a recorded step of
/// the same ranks.

#include <cstddef>
#include <string>

#include "common/train/cli/technique.hpp"
#include "common/train/report/metrics.hpp"

namespace ultra::train {

/// @brief What the ranks that stand for all kept at most, by category, and what all ranks sent in a
/// step, by kind: measured, and how far from what record_step() says of the same setup.
///
/// Behind them stand the formulas that hold (Technique::write_formulas). Parameters, gradients, optimizer and activations are exact wherever no number decides what a step does, as
/// the choice of experts does. A training with flags that cannot be recorded, and one that begins
/// with weights or uses files, is measured alone.
/// @param result  of at least one step.
[[nodiscard]] std::string format_memory_table(const Setup& setup, const TrainResult& result);

/// @brief "exact" when a measured number of bytes is the predicted one, else how much larger it is:
/// "+1.25%".
/// @param decimals  digits after the point.
[[nodiscard]] std::string format_difference(std::size_t measured, std::size_t predicted,
                                            int decimals = 2);

}  // namespace ultra::train

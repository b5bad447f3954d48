#pragma once
/// @file
/// Where the pieces that a rank keeps stand in the whole weights.

#include <vector>

#include "common/checkpoint/safetensors/element_runs.hpp"
#include "common/train/gradients/model_states.hpp"

namespace ultra::train {

/// @brief Where a piece stands in its whole parameter; its padding stands nowhere.
[[nodiscard]] std::vector<checkpoint::ElementRun> runs_of(const OwnedPiece& piece);

}  // namespace ultra::train

#pragma once
/// @file
/// update_in_passes: a stage that makes an update after each backward pass.
///
/// Source: Narayanan et al. 2019 (PipeDream), arXiv 1806.03377, section 3.2.

#include <string>

#include "common/train/cli/step_config.hpp"

namespace ultra::pipeline_parallel {

/// @brief Makes the updates that a rank's schedule calls U, of a rank alone in its data group: with
/// the gradients that the passes have made since the last one. None is left for the step's end.
///
/// Nobody waits for the norm: it does not clip, and the norm that it reports is that of all
/// updates' gradients together.
/// @param flags  that ask for it, for messages.
void update_in_passes(train::StepConfig& step_config, const std::string& flags);

}  // namespace ultra::pipeline_parallel

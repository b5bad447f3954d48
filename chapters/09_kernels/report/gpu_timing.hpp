#pragma once
/// @file
/// How long a launch takes on a GPU.

#include <functional>

#include "chapters/09_kernels/ladder.hpp"

namespace ultra::ladders {

/// @brief Times `launch`, and what the request wants launched with it, on the default stream: in
/// turn, as often as the request says, but no more than three times once the rung has taken two
/// seconds; each with an empty second-level cache. Before, the GPU is kept busy for 0.2 seconds, so
/// that its clock has risen.
/// @param outcome  gets the seconds of each, by the GPU's own clock.
/// @throws simt::SimtError (Fault::kCuda) without a GPU, or when a launch failed.
void time_on_gpu(const RunRequest& request, const std::function<void()>& launch, Outcome& outcome);

}  // namespace ultra::ladders

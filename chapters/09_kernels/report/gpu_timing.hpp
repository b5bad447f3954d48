#pragma once
/// @file
/// How long a launch takes on a GPU.

#include <functional>

#include "chapters/09_kernels/ladder.hpp"

namespace ultra::ladders {

/// @brief Times `launch`, and what the request wants launched beside it, on the default stream: in
/// turn, as often as the request says, each after the second-level cache was overwritten.
/// @param outcome  gets the seconds of each, by the GPU's own clock.
/// @throws simt::SimtError (Fault::kCuda) without a GPU, or when a launch failed.
void time_on_gpu(const RunRequest& request, const std::function<void()>& launch, Outcome& outcome);

}  // namespace ultra::ladders

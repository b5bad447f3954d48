#pragma once
/// @file
/// How long a launch takes on a GPU.

#include <functional>
#include <vector>

namespace ultra::ladders {

/// @brief Times `launch` on the default stream, `repetitions` times, each after the second-level cache
/// was overwritten.
/// @return seconds of each, by the GPU's own clock.
/// @throws simt::SimtError (Fault::kCuda) without a GPU, or when a launch failed.
[[nodiscard]] std::vector<double> time_on_gpu(int repetitions, const std::function<void()>& launch);

}  // namespace ultra::ladders

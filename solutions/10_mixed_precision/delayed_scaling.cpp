#include "chapters/10_mixed_precision/delayed_scaling.hpp"

#include <algorithm>

namespace ultra::mixed_precision {

// [region delayed]
void note_amax(std::span<float> history, float amax) {
  history.front() = std::max(history.front(), amax);
}

float delayed_scale(std::span<const float> history, Fp8 format, int margin) {
  // Not place 0: the scale of a step must not move while its tensors are written and read with it.
  const std::span<const float> ended = history.subspan(1);
  return power_of_two_scale(ended.empty() ? 0.0F : std::ranges::max(ended), format, margin);
}

void end_amax_step(std::span<float> history) {
  std::ranges::copy_backward(history.first(history.size() - 1), history.end());
  history.front() = 0.0F;
}
// [/region]

}  // namespace ultra::mixed_precision

#include "chapters/10_mixed_precision/delayed_scaling.hpp"

#include <algorithm>
#include <cmath>

#include "common/tensor/host_view.hpp"

namespace ultra::mixed_precision {

// [region delayed]
void note_amax(std::span<float> history, float amax) {
  history.front() = std::max(history.front(), amax);
}

float delayed_scale(std::span<const float> history, Fp8 format, int margin) {
  // Not place 0: the scale of a step must not move while its tensors are written and read with it.
  const std::span<const float> ended = history.subspan(1);
  return power_of_two_scale(std::ranges::max(ended), format, margin);
}

void end_amax_step(std::span<float> history) {
  std::ranges::copy_backward(history.first(history.size() - 1), history.end());
  history.front() = 0.0F;
}
// [/region]

// [region agree]
void end_amax_steps(const std::vector<std::span<float>>& histories, const Communicator& ranks,
                    const Device& host) {
  std::vector<float> own;
  for (const std::span<float> history : histories) own.push_back(history.front());
  const Tensor amax = Tensor::from<float>(host, {own.size()}, own);
  if (ranks.size() > 1) ranks.labeled("fp8 amax").all_reduce(amax, ReduceOp::kMax).wait();
  const HostView<const float> of_all(amax);
  for (std::size_t i = 0; i < histories.size(); ++i) {
    const float largest = of_all[i];
    histories[i].front() = std::isfinite(largest) ? largest : histories[i][1];
    end_amax_step(histories[i]);
  }
}
// [/region]

}  // namespace ultra::mixed_precision

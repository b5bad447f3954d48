#include "common/optim/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ultra::optim {

double LearningRateSchedule::at(std::size_t step) const {
  if (step < warmup_steps) {
    return peak * static_cast<double>(step) / static_cast<double>(warmup_steps);
  }
  if (decay_steps) {
    const std::size_t left = step < total_steps ? total_steps - step : 0;
    if (left >= *decay_steps) return peak;
    const double share = static_cast<double>(left) / static_cast<double>(*decay_steps);
    return peak * (final_fraction + (1.0 - final_fraction) * share);
  }
  if (total_steps <= warmup_steps) return peak;
  const double progress = std::min(1.0, static_cast<double>(step - warmup_steps) /
                                            static_cast<double>(total_steps - warmup_steps));
  const double cosine = 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  return peak * (final_fraction + (1.0 - final_fraction) * cosine);
}

}  // namespace ultra::optim

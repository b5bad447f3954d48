// Exercise 10.3: the dynamic loss scaler.
//
// One number shows whether any gradient of any rank overflowed: the norm, which all ranks have
// anyway. Infinity and NaN survive every sum.
#include "chapters/10_mixed_precision/loss_scaler.hpp"

#include <cmath>

namespace ultra::mixed_precision {

// [region unscale]
UnscaledGradients unscale(double scaled_norm, double scale) {
  return {
      .overflow = !std::isfinite(scaled_norm), .norm = scaled_norm / scale, .factor = 1.0 / scale};
}
// [/region]

// [region next_loss_scale]
LossScale next_loss_scale(const LossScale& now, bool overflow, const LossScaleRule& rule) {
  LossScale next = now;
  if (overflow) {
    next.scale *= rule.backoff;
    next.good_steps = 0;
    ++next.skipped;
    return next;
  }
  ++next.good_steps;
  if (next.good_steps == rule.growth_interval) {
    next.scale *= rule.growth;
    next.good_steps = 0;
  }
  return next;
}
// [/region]

}  // namespace ultra::mixed_precision

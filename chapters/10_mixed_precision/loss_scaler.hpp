#pragma once
/// @file
/// Dynamic loss scaling: the largest factor on the loss that does not overflow, found by trying.
///
/// f16 has no numbers below 2^-24, and most gradients of a large model lie there. Gradients are
/// linear in the loss: multiplied by a scale, they move up into the range of f16, as far as the
/// largest of them allows. How far that is changes while a model trains. So the scale grows now and
/// then; once it is too large, some gradient is infinite or NaN, and the step must not count.
///
/// Exercise 10.3 (`./workbook check 10.3`). Body: solutions/10_mixed_precision/loss_scaler.cpp.
/// Source: Micikevicius et al. 2018, "Mixed precision training", arXiv 1710.03740, sec. 3.2;
/// PyTorch's torch.amp.GradScaler, whose constants these are.

#include <cstddef>

namespace ultra::mixed_precision {

/// @brief How a scale moves.
struct LossScaleRule {
  double initial = 65536.0;            ///< of the first step
  double growth = 2.0;                 ///< factor after `growth_interval` steps without overflow
  double backoff = 0.5;                ///< factor after an overflow
  std::size_t growth_interval = 2000;  ///< steps in a row, counted anew after each change
};

/// @brief A scale, and what it has gone through.
struct LossScale {
  double scale = 65536.0;      ///< factor on the loss of the next step
  std::size_t good_steps = 0;  ///< steps without overflow since the scale last changed
  std::size_t skipped = 0;     ///< steps with overflow since the training began

  bool operator==(const LossScale&) const = default;
};

/// @brief What the gradients of a scaled loss are, seen without the scale.
struct UnscaledGradients {
  bool overflow = false;  ///< whether one of them is infinite or NaN: they are of no use
  double norm = 0;        ///< of the gradients of the loss itself: what clipping goes by
  double factor = 1;      ///< on each of them, before clipping

  bool operator==(const UnscaledGradients&) const = default;
};

/// @brief Takes the scale out of gradients, by way of their norm.
/// @param scaled_norm  over all gradients of all ranks, of the scaled loss.
[[nodiscard]] UnscaledGradients unscale(double scaled_norm, double scale);

/// @brief The scale of the next step.
/// @param now       that of this step.
/// @param overflow  whether this step's gradients overflowed, and it was skipped.
[[nodiscard]] LossScale next_loss_scale(const LossScale& now, bool overflow,
                                        const LossScaleRule& rule);

}  // namespace ultra::mixed_precision

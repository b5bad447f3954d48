#pragma once
/// @file
/// The loss scalers of a training: one that finds its scale, and one that keeps it.

#include <memory>

#include "chapters/10_mixed_precision/loss_scaler.hpp"
#include "common/train/loss_scaler.hpp"

namespace ultra::mixed_precision {

/// The smallest scale: below it, what overflows are not gradients that were scaled up too far.
inline constexpr double kLeastScale = 1.0 / 65536.0;

/// @brief A scaler that moves by the rule.
[[nodiscard]] std::unique_ptr<train::LossScaler> dynamic_loss_scaler(const LossScaleRule& rule);

/// @brief A scaler that stays; steps that overflow are skipped all the same.
[[nodiscard]] std::unique_ptr<train::LossScaler> constant_loss_scaler(double scale);

}  // namespace ultra::mixed_precision

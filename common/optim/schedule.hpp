#pragma once
/// @file
/// Learning rate over the steps of a run.

#include <cstddef>
#include <optional>

namespace ultra::optim {

/// @brief Linear warm-up to a peak, then half a cosine down to a fraction of it; or the peak until the
/// last steps, which lead down in a straight line.
///
/// Source of the second: Hu et al. 2024, "MiniCPM", arXiv 2404.06395 (warm-up, stable, decay), whose
/// decay is exponential.
struct LearningRateSchedule {
  double peak = 1e-3;                           ///< highest learning rate
  std::size_t warmup_steps = 10;                ///< steps until the peak is reached
  std::size_t total_steps = 100;                ///< steps of the whole run
  double final_fraction = 0.1;                  ///< learning rate of the last step over the peak
  std::optional<std::size_t> decay_steps = {};  ///< last steps, in which it falls; absent: a cosine

  /// @brief Learning rate of a step; the first step is 1.
  [[nodiscard]] double at(std::size_t step) const;
};

}  // namespace ultra::optim

#pragma once
/// @file
/// Learning rate over the steps of a run.

#include <cstddef>

namespace ultra::optim {

/// @brief Linear warm-up to a peak, then half a cosine down to a fraction of it.
struct WarmupCosine {
  double peak = 1e-3;             ///< highest learning rate
  std::size_t warmup_steps = 10;  ///< steps until the peak is reached
  std::size_t total_steps = 100;  ///< steps of the whole run
  double final_fraction = 0.1;    ///< learning rate of the last step over the peak

  /// @brief Learning rate of a step; the first step is 1.
  [[nodiscard]] double at(std::size_t step) const;
};

}  // namespace ultra::optim

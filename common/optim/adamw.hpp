#pragma once
/// @file
/// AdamW as an update rule.

#include <functional>

#include "common/ops/adamw.hpp"
#include "common/optim/update_rule.hpp"

namespace ultra::optim {

/// @brief Constants of AdamW that stay the same for a whole run.
struct AdamWConfig {
  double beta1 = 0.9;         ///< decay of the mean of the gradients
  double beta2 = 0.95;        ///< decay of the mean of their squares
  double epsilon = 1e-8;      ///< added to the root of the second moment
  double weight_decay = 0.1;  ///< decoupled decay of tensors of two or more dimensions
};

/// @brief The update of one tensor on the host, where it is not ops::adamw_into.
using AdamWUpdate =
    std::function<void(const Tensor& value, const Tensor& grad, const Tensor& first_moment,
                       const Tensor& second_moment, const ops::AdamWStep& constants)>;

/// @brief AdamW: two states, "exp_avg" and "exp_avg_sq", the decaying means of the gradients and of their
/// squares; 8 bytes per weight in f32.
/// @param update  called for each tensor on the host; empty, and on devices with streams: ops::adamw_into
/// takes all that there are.
/// Source: Loshchilov & Hutter 2019, arXiv 1711.05101, alg. 2.
[[nodiscard]] Rule adamw(const AdamWConfig& config = {}, AdamWUpdate update = {});

/// @brief AdamW's constants for one tensor in one step.
[[nodiscard]] ops::AdamWStep adamw_step(const AdamWConfig& config, bool decay,
                                        const StepConstants& step);

}  // namespace ultra::optim

#pragma once
/// @file
/// Update: how a step's gradients change the weights.

#include <functional>
#include <memory>

#include "common/nn/model.hpp"
#include "common/optim/adamw.hpp"
#include "common/train/options.hpp"
#include "common/train/worker.hpp"

namespace ultra::train {

/// @brief Applies the gradients to the weights; returns the global gradient norm before clipping.
///
/// It holds the optimizer's state: each rank makes its own for each run, and copies of it share that
/// state.
using Update = std::function<double(nn::Model& model, const StepPlan& plan)>;

/// @brief Whether weight decay applies to a parameter: to matrices, not to the weights of norms.
[[nodiscard]] bool decays(const nn::Parameter& parameter);

/// @brief Clips the gradients to options.clip_norm, by their global norm, and makes a step of AdamW;
/// matrices decay, norm weights do not.
///
/// Memory: 2 n elements, allocated by the first step. Throws (when called) NumericError when the
/// norm is not finite.
/// @param update  of one tensor.
[[nodiscard]] Update clipped_adamw(const TrainOptions& options,
                                   optim::AdamWUpdate update = ops::adamw_into);

/// @brief The same with an optimizer that the caller has too.
[[nodiscard]] Update clipped_adamw(const TrainOptions& options,
                                   std::shared_ptr<optim::AdamW> optimizer);

}  // namespace ultra::train

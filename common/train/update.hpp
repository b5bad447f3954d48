#pragma once
/// @file
/// Update: how a step's gradients change the weights.

#include <functional>
#include <memory>
#include <span>

#include "common/nn/model.hpp"
#include "common/optim/adamw.hpp"
#include "common/train/options/options.hpp"
#include "common/train/worker.hpp"

namespace ultra::train {

/// @brief Applies the gradients to the weights; returns the global gradient norm before clipping.
///
/// It holds the optimizer's state: each rank makes its own for each run, and copies of it share that
/// state.
using Update = std::function<double(nn::Model& model, const StepPlan& plan)>;

/// @brief What a rank has of a parameter's gradient.
struct GradientPiece {
  const nn::Parameter* parameter;  ///< whose
  Tensor grad;                     ///< of some of its elements, or of all
};

/// @brief Completes the gradients of a step, if other ranks have parts of them, and returns their global
/// norm: the same number on all ranks.
using FinishGradients = std::function<double(std::span<const GradientPiece> pieces)>;

/// @brief The Euclidean norm of pieces that are the whole gradient.
[[nodiscard]] double gradient_norm(std::span<const GradientPiece> pieces);

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
/// @param finish  called with the gradients of all parameters.
[[nodiscard]] Update clipped_adamw(const TrainOptions& options,
                                   std::shared_ptr<optim::AdamW> optimizer,
                                   FinishGradients finish = gradient_norm);

}  // namespace ultra::train

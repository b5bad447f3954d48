#pragma once
/// @file
/// Step: what a training step does, on every rank and in every layout.
///
/// Its loop over micro-batches, run_schedule(), is the only one. A technique changes what it runs
/// through (the schedule), who follows it (exchanges, observers) and what is updated (states),
/// never the loop.

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "common/nn/model.hpp"
#include "common/train/gradients/gradient_ledger.hpp"
#include "common/train/gradients/gradient_norm.hpp"
#include "common/train/gradients/model_states.hpp"
#include "common/train/loss_scaler.hpp"
#include "common/train/plan.hpp"
#include "common/train/run/worker.hpp"
#include "common/train/scheduled_passes.hpp"
#include "common/train/stage_links.hpp"
#include "common/train/step_observer.hpp"

namespace ultra::train {

/// Makes an observer of a rank's steps.
using MakeObserver = std::function<std::unique_ptr<StepObserver>(const ModelScope& scope)>;
/// Makes what stands between a rank's chunks and those of others.
using MakeLinks = std::function<std::unique_ptr<StageLinks>(const ModelScope& scope)>;

/// @brief What a rank has of a parameter's gradient.
struct GradientPiece {
  const nn::Parameter* parameter;  ///< whose
  Tensor grad;                     ///< of some of its elements, or of all
};

/// Adds up the gradients of which several ranks have a part each: nn::CopyGradients::kPartial.
/// Collective.
using SumPartial =
    std::function<void(std::span<const GradientPiece> pieces, const RankGroups& groups)>;

/// @brief What a step is made of, beside the plan.
struct StepParts {
  std::vector<nn::Model*> chunks;                    ///< as Plan::chunks; outlive the step
  std::vector<std::unique_ptr<ModelStates>> states;  ///< by data group
  CompletionRule completes;                          ///< when a gradient is complete; may be empty
  SumPartial sum_partial;                            ///< may be empty: no gradient is partial
  std::unique_ptr<StageLinks> links;                 ///< null: the chunk is the whole model
  std::unique_ptr<LossScaler> scaler;                ///< null: the loss is not scaled
  std::vector<std::unique_ptr<StepObserver>> observers;  ///< in their order
};

/// @brief One rank's steps.
class Step {
 public:
  /// @param context  of the run; outlives this.
  /// @param plan     of this rank; outlives this.
  /// @param whole    nn::named_shapes() of the whole model.
  Step(const RunContext& context, const Plan& plan, std::span<const nn::NamedShape> whole,
       StepParts parts);

  /// @brief All passes, the exchange of gradients, their norm, and the update of the weights.
  ///
  /// With a loss scaler, a norm that is not finite skips the update: no weight, no moment and no count
  /// of steps changes, and observers are told.
  /// @throws NumericError on every rank alike when the loss is not finite, or the norm without a
  /// scaler; what LossScaler::step_ends() throws.
  /// Collective over plan.in_step.
  /// Cost: that of the exchanges and of the states' update, and an all-reduce of one f64 per
  /// parameter of the whole model, and one.
  [[nodiscard]] StepOutcome run(const StepPlan& step);

  /// @brief The mean loss on the first batches of another text: the forward passes of the schedule,
  /// and no more. Nothing of the training changes.
  /// @param sampler  of the whole global batch.
  /// Collective over plan.ranks().   Cost: an all-reduce of one f64, and that of forward passes.
  [[nodiscard]] double validate(const data::Sampler& sampler, std::size_t batches);

  /// @brief What scales the loss; null when nothing does.
  [[nodiscard]] LossScaler* scaler() const { return parts_.scaler.get(); }

  /// @brief What this rank keeps, by data group.
  [[nodiscard]] const std::vector<std::unique_ptr<ModelStates>>& states() const {
    return parts_.states;
  }

 private:
  using Updates = std::vector<std::vector<optim::TensorUpdate>>;  // by data group

  /// That of the next tokens, and of those after next where they are predicted.
  [[nodiscard]] std::vector<double> pass_micro_batches(const StepPlan& step);
  [[nodiscard]] double pass_forward(const data::Sampler& share, std::size_t batch,
                                    const StepSchedule& forwards, const Tensor& loss_sum) const;
  [[nodiscard]] Updates complete_gradients();
  [[nodiscard]] StepOutcome sum_over_ranks(std::span<const double> own_losses,
                                           const Updates& updates);
  [[nodiscard]] bool predicts_further() const { return context_.options.model.mtp; }
  [[nodiscard]] double local_loss(double loss_of_host, double loss_of_device) const {
    return loss_of_host + loss_of_device / loss_scale();
  }
  [[nodiscard]] double loss_scale() const { return parts_.scaler ? parts_.scaler->scale() : 1.0; }
  [[nodiscard]] double unscale(StepOutcome& outcome) const;
  void update_weights(const Updates& updates, const StepRule& rule, double factor) const;

  const RunContext& context_;
  const Plan& plan_;
  ParameterNumbers numbers_;
  data::Sampler share_;
  StepParts parts_;
  GradientLedger ledger_;
  StepSums sums_;
};

}  // namespace ultra::train

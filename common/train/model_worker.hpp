#pragma once
/// @file
/// ModelWorker: a rank that trains its chunks of a model, step by step.

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "common/nn/layer_factory.hpp"
#include "common/nn/model.hpp"
#include "common/train/cli/step_config.hpp"
#include "common/train/plan.hpp"
#include "common/train/run/worker.hpp"
#include "common/train/step.hpp"

namespace ultra::train {

/// @brief What a trainer keeps of a training, for whoever saves or loads it.
struct TrainerState {
  const RunContext& context;                                ///< of the run
  const std::vector<nn::NamedShape>& parameters;            ///< of the whole model
  const std::vector<std::unique_ptr<ModelStates>>& states;  ///< of this rank, by data group
  std::vector<NamedNumbers> numbers = {};                   ///< what else belongs to the training
};

/// @brief Makes the chunks of the model that the plan says, what the rank keeps of them, and steps.
///
/// The timeline shows the passes of each block, and the optimizer step.
class ModelWorker : public Worker {
 public:
  /// @param context    valid as long as this.
  /// @param plan       may be referred to by the factories, and by what they make.
  /// @param factories  of layers; the last one makes the model.
  /// Collective over plan.ranks().
  ModelWorker(const RunContext& context, std::shared_ptr<const Plan> plan, FactoryStack factories,
              const StepConfig& step_config);

  StepOutcome step(const StepPlan& plan) override { return step_->run(plan); }
  [[nodiscard]] double validate(const data::Sampler& sampler, std::size_t batches) override {
    return step_->validate(sampler, batches);
  }
  [[nodiscard]] std::size_t skipped_steps() const override {
    return step_->scaler() ? step_->scaler()->skipped() : 0;
  }
  void conclude(std::vector<StepMetrics>& steps) override;
  [[nodiscard]] std::size_t parameter_count() const override;

  /// @brief What this rank is to the others.
  [[nodiscard]] const Plan& plan() const { return *plan_; }
  /// @brief The rank's chunks of the model.
  [[nodiscard]] const std::vector<nn::Model*>& chunks() const { return chunks_; }
  /// @brief What the rank keeps; ends with this.
  [[nodiscard]] TrainerState state() const;

 private:
  void make_chunks(nn::Values values);
  void name_phases(nn::Model& model);
  [[nodiscard]] StepParts make_parts(const StepConfig& step_config) const;
  [[nodiscard]] std::vector<std::unique_ptr<ModelStates>> make_states(
      const StepConfig& step_config) const;

  RunContext context_;
  std::shared_ptr<const Plan> plan_;
  FactoryStack factories_;
  std::vector<nn::NamedShape> whole_;  // the parameters of the whole model
  std::vector<std::unique_ptr<nn::Model>> owned_chunks_;
  std::vector<nn::Model*> chunks_;
  std::vector<nn::HookHandle> phases_;  // named on the timeline
  std::unique_ptr<Step> step_;
};

}  // namespace ultra::train

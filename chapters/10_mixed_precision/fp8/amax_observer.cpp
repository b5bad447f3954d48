#include "chapters/10_mixed_precision/fp8/amax_observer.hpp"

#include <list>
#include <span>
#include <vector>

#include "chapters/05_tensor_sequence_parallel/tensor_parallel.hpp"
#include "chapters/06_context_parallel/context_parallel.hpp"
#include "chapters/10_mixed_precision/delayed_scaling.hpp"
#include "chapters/10_mixed_precision/fp8/fp8_linear.hpp"
#include "common/tensor/host_view.hpp"

namespace ultra::mixed_precision {
namespace {

class AmaxObserver : public train::StepObserver {
 public:
  AmaxObserver(const train::ModelScope& scope, std::size_t history)
      : ranks_(
            scope.plan.mesh.group({kReplicaAxis, context_parallel::kAxis, tensor_parallel::kAxis})),
        device_(scope.context.device),
        row_(1 + history) {
    for (nn::Model* chunk : scope.chunks) {
      for (nn::Parameter* parameter : chunk->parameters()) {
        if (parameter->name().ends_with(kHistorySuffix)) histories_.push_back(parameter);
      }
    }
  }

  /// A checkpoint may hold what a validation has noted.
  void step_begins(const train::StepPlan&) override { forget_noted(); }

  /// Its passes have noted maxima too, which are none of the training's.
  void validation_ends() override { forget_noted(); }

  void step_ends(const train::StepPlan&) override {
    std::list<HostView<float>> views;
    for (const nn::Parameter* parameter : histories_) {
      views.emplace_back(parameter->value(), HostAccess::kReadWrite);
    }
    std::vector<std::span<float>> histories;
    for (const HostView<float>& values : views) {
      for (std::size_t first = 0; first < values.size(); first += row_) {
        histories.push_back(values.span().subspan(first, row_));
      }
    }
    end_amax_steps(histories, ranks_, device_.host());
  }

 private:
  void forget_noted() const {
    for (const nn::Parameter* parameter : histories_) {
      const Tensor& values = parameter->value();
      for (std::size_t first = 0; first < values.numel(); first += row_) {
        values.slice(0, {first, first + 1}).fill(0.0);
      }
    }
  }

  Communicator ranks_;
  Device device_;
  std::size_t row_;
  std::vector<nn::Parameter*> histories_;
};

/// Follows nothing.
class NoObserver : public train::StepObserver {};

}  // namespace

std::unique_ptr<train::StepObserver> observe_fp8(const train::ModelScope& scope,
                                                 const Fp8Recipe& recipe) {
  if (recipe.scaling != Scaling::kDelayed) return std::make_unique<NoObserver>();
  return std::make_unique<AmaxObserver>(scope, recipe.history);
}

}  // namespace ultra::mixed_precision

#include "chapters/10_mixed_precision/fp8/amax_observer.hpp"

#include <span>
#include <vector>

#include "chapters/10_mixed_precision/delayed_scaling.hpp"
#include "chapters/10_mixed_precision/fp8/fp8_linear.hpp"

namespace ultra::mixed_precision {
namespace {

class AmaxObserver : public train::StepObserver {
 public:
  AmaxObserver(const train::ModelScope& scope, std::size_t history)
      : ranks_(scope.plan.mesh.group({MeshDim::kDp, MeshDim::kCp, MeshDim::kTp})),
        device_(scope.context.device),
        row_(1 + history) {
    for (nn::Model* chunk : scope.chunks) {
      for (nn::Parameter* parameter : chunk->parameters()) {
        if (parameter->name().ends_with(kHistorySuffix)) histories_.push_back(parameter);
      }
    }
  }

  /// A validation has noted maxima too.
  void step_begins(const train::StepPlan&) override {
    for (const std::span<float> history : rows()) history.front() = 0.0F;
  }

  void step_ends(const train::StepPlan&) override {
    const std::vector<std::span<float>> histories = rows();
    const Tensor amax = Tensor::empty(device_, {histories.size()}, DType::kF32);
    const std::span<float> values = amax.span<float>();
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = histories[i].front();
    if (ranks_.size() > 1) ranks_.labeled("fp8 amax").all_reduce(amax, ReduceOp::kMax);
    for (std::size_t i = 0; i < values.size(); ++i) {
      note_amax(histories[i], values[i]);
      end_amax_step(histories[i]);
    }
  }

 private:
  /// The history of each tensor.
  [[nodiscard]] std::vector<std::span<float>> rows() const {
    std::vector<std::span<float>> all;
    for (const nn::Parameter* parameter : histories_) {
      const std::span<float> values = parameter->value().span<float>();
      for (std::size_t first = 0; first < values.size(); first += row_) {
        all.push_back(values.subspan(first, row_));
      }
    }
    return all;
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

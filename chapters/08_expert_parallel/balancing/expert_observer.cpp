#include "chapters/08_expert_parallel/balancing/expert_observer.hpp"

#include <fmt/format.h>

#include <numeric>
#include <string>
#include <vector>

#include "chapters/08_expert_parallel/moe/bias_name.hpp"
#include "chapters/08_expert_parallel/moe/router.hpp"
#include "common/tensor/host_view.hpp"
#include "common/train/gradients/gradient_norm.hpp"

namespace ultra::expert_parallel {
namespace {

class ExpertObserver : public train::StepObserver {
 public:
  ExpertObserver(const train::ModelScope& scope, const MoeConfig& config)
      : scope_(scope),
        config_(config),
        layers_(scope.context.options.model.num_blocks()),
        counted_(layers_ * (config.num_experts + 1), 0.0) {}

  void step_ends(const train::StepPlan&) override { end_step(config_.balance == Balance::kBias); }

  /// The loads are shown, and biases wait with the weights.
  void step_skipped(const train::StepPlan&) override { end_step(false); }

 private:
  void end_step(bool moves_biases) {
    const std::vector<double> step = counts_of_step();
    const std::size_t experts = config_.num_experts;
    std::vector<double> dropped;
    for (std::size_t layer = 0; layer < layers_; ++layer) {
      const std::span<const double> counts =
          std::span(step).subspan(layer * (experts + 1), experts + 1);
      const std::span<const double> loads = counts.first(experts);
      const double all = std::accumulate(loads.begin(), loads.end(), 0.0);
      note_shares(layer, loads, all);
      dropped.push_back(all > 0 ? counts.back() / all : 0.0);
      if (moves_biases) move_biases_of(layer, loads);
    }
    scope_.context.meter.note("dropped_share", std::move(dropped));
  }

  /// [layers, experts + 1] of all ranks: choices of each expert, and those that were dropped.
  std::vector<double> counts_of_step() {
    const auto& sums = scope_.plan.counters->sums();
    const auto sum = [&](const std::string& name) {
      const auto found = sums.find(name);
      return found == sums.end() ? 0.0 : found->second;
    };
    std::vector<double> step;
    for (std::size_t layer = 0; layer < layers_; ++layer) {
      for (std::size_t expert = 0; expert < config_.num_experts; ++expert) {
        step.push_back(sum(load_counter(layer, expert)));
      }
      step.push_back(sum(dropped_counter(layer)));
    }
    for (std::size_t i = 0; i < step.size(); ++i) {
      step[i] -= std::exchange(counted_[i], step[i]);
      if (!scope_.plan.counts_loss()) step[i] = 0.0;  // ranks of tp have counted the same tokens
    }
    train::sum_over(scope_.plan.ranks().labeled("expert loads"), step);
    return step;
  }

  void note_shares(std::size_t layer, std::span<const double> loads, double all) const {
    std::vector<double> shares(loads.begin(), loads.end());
    for (double& share : shares) share = all > 0 ? share / all : 0.0;
    scope_.context.meter.note(fmt::format("expert_load.{}", layer), std::move(shares));
  }

  void move_biases_of(std::size_t layer, std::span<const double> loads) const {
    for (const nn::Model* chunk : scope_.chunks) {
      if (!chunk->has_block(layer)) continue;
      for (const nn::Parameter* parameter : chunk->block_parameters(layer)) {
        if (!parameter->name().ends_with(kBiasSuffix)) continue;
        move_biases(parameter->value(), loads, config_.bias_rate);
      }
    }
  }

  train::ModelScope scope_;
  MoeConfig config_;
  std::size_t layers_;
  std::vector<double> counted_;  // up to the step before
};

}  // namespace

// [region move_biases]
void move_biases(const Tensor& biases, std::span<const double> loads, double rate) {
  const double mean =
      std::accumulate(loads.begin(), loads.end(), 0.0) / static_cast<double>(loads.size());
  dispatch_float(biases.dtype(), [&]<class T>() {
    const HostView<T> numbers(biases, HostAccess::kReadWrite);
    for (std::size_t e = 0; e < loads.size(); ++e) {
      if (loads[e] > mean) numbers[e] -= static_cast<T>(rate);
      if (loads[e] < mean) numbers[e] += static_cast<T>(rate);
    }
  });
}
// [/region]

std::unique_ptr<train::StepObserver> observe_experts(const train::ModelScope& scope,
                                                     const MoeConfig& config) {
  return std::make_unique<ExpertObserver>(scope, config);
}

}  // namespace ultra::expert_parallel

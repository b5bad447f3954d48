#include "chapters/10_mixed_precision/training/weight_steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "chapters/10_mixed_precision/master_weights.hpp"
#include "chapters/10_mixed_precision/stochastic_rounding.hpp"
#include "common/tensor/host_view.hpp"
#include "common/train/gradients/gradient_norm.hpp"
#include "common/train/weights/piece_runs.hpp"

namespace ultra::mixed_precision {
namespace {

class FiguresObserver : public train::StepObserver {
 public:
  FiguresObserver(const train::ModelScope& scope, std::shared_ptr<UpdateFigures> figures)
      : context_(scope.context), plan_(scope.plan), figures_(std::move(figures)) {}

  void step_ends(const train::StepPlan&) override {
    std::vector<double> counts = figures_->take();
    train::sum_over(plan_.ranks().labeled("figures of updates"), counts);
    const double lost = std::exchange(counts.back(), 0.0);
    counts.pop_back();
    const double updates = counts.back();
    counts.pop_back();
    const double zeros = counts.back();
    counts.pop_back();
    const double gradients = counts.back();
    counts.pop_back();
    context_.meter.note("gradient_exponents", std::move(counts));
    context_.meter.note("zero_gradients", {gradients > 0 ? zeros / gradients : 0.0});
    context_.meter.note("lost_updates", {updates > 0 ? lost / updates : 0.0});
  }

 private:
  train::RunContext context_;
  const train::Plan& plan_;
  std::shared_ptr<UpdateFigures> figures_;
};

/// Rounds numbers anew, by chance: run by run of elements that stand together in the whole weight.
void round_by_chance(const Tensor& wide, const Tensor& weights, const train::OwnedPiece& piece,
                     std::uint64_t seed, int step) {
  const PhiloxStream random(
      seed, fmt::format("rounding of {} in step {}", piece.parameter->name(), step));
  const HostView<const float> from(wide);
  const HostView<BFloat16> to(weights, HostAccess::kReadWrite);
  for (const checkpoint::ElementRun& run : train::runs_of(piece)) {
    round_stochastically(from.span().subspan(run.local, run.count),
                         to.span().subspan(run.local, run.count), random, run.global);
  }
}

/// How the weights of the pieces of a data group change by a rule.
class WeightRule final : public optim::RuleAround {
 public:
  WeightRule(WeightRuleSettings settings, optim::Rule rule, std::vector<train::OwnedPiece> pieces)
      : RuleAround(std::move(rule)), settings_(std::move(settings)), pieces_(std::move(pieces)) {}

  void apply(std::size_t i, const optim::TensorUpdate& update, std::span<const Tensor> states,
             const optim::StepConstants& step) const override {
    if (settings_.figures) settings_.figures->count_gradient(update.grad);
    RuleAround::apply(i, update, states, step);
  }

  // What change() does, where kernels do it in one pass.
  void apply_all(std::span<const optim::NumberedUpdate> updates,
                 const optim::StepConstants& step) const override {
    const bool rounds_to_nearest = settings_.rounding == Rounding::kNearest && !settings_.figures;
    const DeviceKind device = updates.front().update.value.device().kind();
    if (rounds_to_nearest && has_streams(device) && inner().applies_in_one_pass(device)) {
      return inner().apply_all(updates, step);
    }
    RuleAround::apply_all(updates, step);
  }

  Tensor direction(std::size_t i, const optim::TensorUpdate& update, std::span<const Tensor> states,
                   const optim::StepConstants& step) const override {
    if (settings_.figures) settings_.figures->count_gradient(update.grad);
    return RuleAround::direction(i, update, states, step);
  }

 private:
  void change(std::size_t i, const optim::TensorUpdate& update, const optim::StepConstants& step,
              const ByRule& by_rule) const override {
    if (update.master.defined()) {
      update_with_master(update.value, update.grad, update.master, by_rule);
    } else if (is_half(update.value.dtype())) {
      step_rounded(update, pieces_.at(i), step.step, by_rule);
    } else {
      by_rule(update.value, cast(update.grad, update.value.dtype()));
    }
  }

  void step_rounded(const optim::TensorUpdate& update, const train::OwnedPiece& piece, int step,
                    const ByRule& by_rule) const {
    Tensor before;
    if (settings_.figures) before = update.value.clone();
    const Tensor wide = update_without_master(update.value, update.grad, by_rule);
    if (settings_.rounding == Rounding::kStochastic) {
      round_by_chance(wide, update.value, piece, settings_.seed, step);
    }
    if (settings_.figures) settings_.figures->count_update(before, wide, update.value);
  }

  WeightRuleSettings settings_;
  std::vector<train::OwnedPiece> pieces_;
};

}  // namespace

void UpdateFigures::count_gradient(const Tensor& gradient) {
  const Tensor wide = cast(gradient, DType::kF32);
  for (const HostView<const float> numbers(wide); const float g : numbers) {
    ++gradients_;
    if (g == 0.0F) {
      ++zeros_;
      continue;
    }
    const int exponent = std::isfinite(g)
                             ? std::clamp(std::ilogb(g), kLowestExponent, kHighestExponent)
                             : kHighestExponent;
    ++exponents_[static_cast<std::size_t>(exponent - kLowestExponent)];
  }
}

void UpdateFigures::count_update(const Tensor& before, const Tensor& wide, const Tensor& after) {
  const Tensor was = cast(before, DType::kF32);
  const Tensor is = cast(after, DType::kF32);
  const HostView<const float> from(was);
  const HostView<const float> meant(wide);
  const HostView<const float> to(is);
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (meant[i] == from[i]) continue;
    ++updates_;
    if (to[i] == from[i]) ++lost_;
  }
}

std::vector<double> UpdateFigures::take() {
  std::vector<double> counts = exponents_;
  for (double* number : {&gradients_, &zeros_, &updates_, &lost_}) {
    counts.push_back(std::exchange(*number, 0.0));
  }
  std::ranges::fill(exponents_, 0.0);
  return counts;
}

train::MakeObserver note_figures(std::shared_ptr<UpdateFigures> figures) {
  return [figures = std::move(figures)](const train::ModelScope& scope) {
    return std::make_unique<FiguresObserver>(scope, figures);
  };
}

train::WrapRule weight_rule(const WeightRuleSettings& settings) {
  return [settings](optim::Rule rule, const std::vector<train::OwnedPiece>& pieces) -> optim::Rule {
    return std::make_shared<WeightRule>(settings, std::move(rule), pieces);
  };
}

}  // namespace ultra::mixed_precision

#include "chapters/10_mixed_precision/recipe/update_figures.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "common/tensor/host_view.hpp"
#include "common/train/gradients/gradient_norm.hpp"

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

}  // namespace ultra::mixed_precision

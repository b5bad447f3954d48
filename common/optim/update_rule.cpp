#include "common/optim/update_rule.hpp"

#include "common/base/errors.hpp"

namespace ultra::optim {
namespace {

[[noreturn]] void report_no_matrix() {
  throw InternalError("a rule that changes weights element by element has no whole matrices");
}

}  // namespace

void UpdateRule::apply_all(std::span<const NumberedUpdate> updates,
                           const StepConstants& step) const {
  for (const NumberedUpdate& each : updates) apply(each.number, each.update, each.states, step);
}

Tensor UpdateRule::direction(std::size_t, const TensorUpdate&, std::span<const Tensor>,
                             const StepConstants&) const {
  report_no_matrix();
}

void UpdateRule::transform(const Tensor&) const { report_no_matrix(); }

void UpdateRule::step_along(std::size_t, const TensorUpdate&, const StepConstants&) const {
  report_no_matrix();
}

void RuleAround::apply(std::size_t i, const TensorUpdate& update, std::span<const Tensor> states,
                       const StepConstants& step) const {
  change(i, update, step, [&](const Tensor& value, const Tensor& gradient) {
    inner_->apply(i, {.value = value, .grad = gradient, .decay = update.decay}, states, step);
  });
}

void RuleAround::step_along(std::size_t i, const TensorUpdate& update,
                            const StepConstants& step) const {
  change(i, update, step, [&](const Tensor& value, const Tensor& gradient) {
    inner_->step_along(i, {.value = value, .grad = gradient, .decay = update.decay}, step);
  });
}

}  // namespace ultra::optim

#include "common/optim/adamw.hpp"

#include <array>
#include <utility>
#include <vector>

#include "common/base/errors.hpp"

namespace ultra::optim {
namespace {

constexpr std::array<StateSpec, 2> kAdamWStates = {
    {{.name = "exp_avg"}, {.name = "exp_avg_sq", .signs = Signs::kNonNegative}}};

class AdamW final : public UpdateRule {
 public:
  AdamW(const AdamWConfig& config, AdamWUpdate update)
      : config_(config), update_(std::move(update)) {}

  StateSpecs states(WeightKind) const override { return kAdamWStates; }

  void apply(std::size_t i, const TensorUpdate& update, std::span<const Tensor> states,
             const StepConstants& step) const override {
    if (applies_in_one_pass(update.value.device().kind())) {
      const NumberedUpdate one{.number = i, .update = update, .states = states};
      return apply_all({&one, 1}, step);
    }
    ensure(!update.master.defined(), "a rule around this one rounds master weights");
    update_(update.value, update.grad, states[0], states[1],
            adamw_step(config_, update.decay, step));
  }

  void apply_all(std::span<const NumberedUpdate> updates,
                 const StepConstants& step) const override {
    if (!applies_in_one_pass(updates.front().update.value.device().kind())) {
      return UpdateRule::apply_all(updates, step);
    }
    std::vector<ops::AdamWTensors> tensors;
    for (const NumberedUpdate& each : updates) {
      const TensorUpdate& of = each.update;
      const bool has_master = of.master.defined();
      tensors.push_back({.value = has_master ? of.master : of.value,
                         .grad = of.grad,
                         .first_moment = each.states[0],
                         .second_moment = each.states[1],
                         .decays = of.decay,
                         .rounded = has_master ? of.value : Tensor()});
    }
    ops::adamw_into(tensors, adamw_step(config_, true, step));
  }

  bool applies_in_one_pass(DeviceKind device) const override {
    return !update_ || has_streams(device);
  }

 private:
  AdamWConfig config_;
  AdamWUpdate update_;
};

}  // namespace

Rule adamw(const AdamWConfig& config, AdamWUpdate update) {
  return std::make_shared<AdamW>(config, std::move(update));
}

ops::AdamWStep adamw_step(const AdamWConfig& config, bool decay, const StepConstants& step) {
  return {.learning_rate = step.learning_rate,
          .beta1 = config.beta1,
          .beta2 = config.beta2,
          .epsilon = config.epsilon,
          .weight_decay = decay ? config.weight_decay : 0.0,
          .gradient_scale = step.gradient_scale,
          .step = step.step};
}

}  // namespace ultra::optim

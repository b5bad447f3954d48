#include "common/optim/muon.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "common/base/errors.hpp"
#include "common/ops/elementwise.hpp"

namespace ultra::optim {
namespace {

constexpr std::array<StateSpec, 1> kMuonStates = {{{.name = "momentum_buffer"}}};

class Muon final : public UpdateRule {
 public:
  Muon(Rule others, const MuonConfig& config) : others_(std::move(others)), config_(config) {}

  StateSpecs states(WeightKind kind) const override {
    return kind == WeightKind::kMatrix ? StateSpecs(kMuonStates) : others_->states(kind);
  }
  bool needs_whole(WeightKind kind) const override { return kind == WeightKind::kMatrix; }

  void apply(std::size_t i, const TensorUpdate& update, std::span<const Tensor> states,
             const StepConstants& step) const override {
    others_->apply(i, update, states, step);
  }

  void apply_all(std::span<const NumberedUpdate> updates,
                 const StepConstants& step) const override {
    others_->apply_all(updates, step);
  }
  bool applies_in_one_pass(DeviceKind device) const override {
    return others_->applies_in_one_pass(device);
  }

  Tensor direction(std::size_t, const TensorUpdate& update, std::span<const Tensor> states,
                   const StepConstants& step) const override {
    const Tensor& buffer = states[0];
    const Tensor gradient = Tensor::empty(buffer.device(), buffer.shape(), buffer.dtype());
    cast_into(gradient, update.grad);
    ops::scale_into(gradient, step.gradient_scale);
    ops::scale_into(buffer, config_.momentum);
    ops::add_into(buffer, gradient);
    Tensor ahead = buffer.clone();
    ops::scale_into(ahead, config_.momentum);
    ops::add_into(ahead, gradient);
    return ahead;
  }

  void transform(const Tensor& matrix) const override {
    newton_schulz(matrix, config_.newton_schulz);
    const std::size_t largest = std::max(matrix.shape()[0], matrix.shape()[1]);
    ops::scale_into(matrix, config_.root_mean_square * std::sqrt(static_cast<double>(largest)));
  }

  void step_along(std::size_t, const TensorUpdate& update,
                  const StepConstants& step) const override {
    ensure(!update.master.defined(), "a rule around this one rounds master weights");
    if (update.decay) {
      ops::scale_into(update.value, 1.0 - step.learning_rate * config_.weight_decay);
    }
    Tensor change = update.grad.clone();
    ops::scale_into(change, -step.learning_rate);
    ops::add_into(update.value, change);
  }

 private:
  Rule others_;
  MuonConfig config_;
};

}  // namespace

Rule muon(Rule others, const MuonConfig& config) {
  return std::make_shared<Muon>(std::move(others), config);
}

}  // namespace ultra::optim

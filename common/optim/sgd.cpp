#include "common/optim/sgd.hpp"

#include <array>

#include "common/base/errors.hpp"
#include "common/ops/elementwise.hpp"

namespace ultra::optim {
namespace {

constexpr std::array<StateSpec, 1> kSgdStates = {{{.name = "momentum_buffer"}}};

class Sgd final : public UpdateRule {
 public:
  explicit Sgd(const SgdConfig& config) : config_(config) {}

  StateSpecs states(WeightKind) const override { return kSgdStates; }

  void apply(std::size_t, const TensorUpdate& update, std::span<const Tensor> states,
             const StepConstants& step) const override {
    ensure(!update.master.defined(), "a rule around this one rounds master weights");
    const Tensor& buffer = states[0];
    ops::scale_into(buffer, config_.momentum);
    ops::add_into(buffer, scaled(update.grad, step.gradient_scale));
    if (update.decay) {
      ops::scale_into(update.value, 1.0 - step.learning_rate * config_.weight_decay);
    }
    ops::add_into(update.value, scaled(buffer, -step.learning_rate));
  }

 private:
  static Tensor scaled(const Tensor& x, double factor) {
    Tensor result = x.clone();
    ops::scale_into(result, factor);
    return result;
  }

  SgdConfig config_;
};

}  // namespace

Rule sgd(const SgdConfig& config) { return std::make_shared<Sgd>(config); }

}  // namespace ultra::optim

#include "common/train/weights/master_weights.hpp"

#include <memory>
#include <utility>

namespace ultra::train {
namespace {

class MasterWeightRule final : public optim::RuleAround {
 public:
  using RuleAround::RuleAround;

  void apply_all(std::span<const optim::NumberedUpdate> updates,
                 const optim::StepConstants& step) const override {
    if (inner().applies_in_one_pass(updates.front().update.value.device().kind())) {
      return inner().apply_all(updates, step);
    }
    RuleAround::apply_all(updates, step);
  }

 private:
  void change(std::size_t, const optim::TensorUpdate& update, const optim::StepConstants&,
              const ByRule& by_rule) const override {
    if (!update.master.defined()) return by_rule(update.value, update.grad);
    by_rule(update.master, cast(update.grad, update.master.dtype()));
    cast_into(update.value, update.master);
  }
};

/// Between devices nothing is converted.
void copy(const Tensor& to, const Tensor& from) {
  if (to.dtype() == from.dtype()) return to.copy_from(from);
  cast_into(to, from);
}

}  // namespace

MasterWeights::MasterWeights(std::span<const OwnedPiece> pieces, const nn::Precision& precision) {
  for (const OwnedPiece& piece : pieces) {
    const nn::Parameter& parameter = *piece.parameter;
    masters_.emplace_back();
    const bool has_master = is_half(parameter.dtype()) && !is_half(precision.optimizer);
    if (!has_master || parameter.is_frozen()) continue;
    masters_.back() = Tensor::empty(parameter.device(), {piece.elements.size()},
                                    precision.optimizer, MemoryCategory::kOptimizer);
    parameter.initial_values_into(masters_.back(), piece.elements.begin);
  }
}

void MasterWeights::read(std::size_t piece, const Tensor& weights, const Tensor& out) const {
  copy(out, of(piece).defined() ? of(piece) : weights);
}

void MasterWeights::write(std::size_t piece, const Tensor& weights, const Tensor& in) const {
  if (of(piece).defined()) copy(of(piece), in);
  copy(weights, in);
}

optim::Rule update_master_weights(optim::Rule rule, const std::vector<OwnedPiece>&) {
  return std::make_shared<MasterWeightRule>(std::move(rule));
}

}  // namespace ultra::train

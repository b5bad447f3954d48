#include "chapters/10_mixed_precision/recipe/weight_steps.hpp"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "chapters/10_mixed_precision/master_weights.hpp"
#include "chapters/10_mixed_precision/stochastic_rounding.hpp"
#include "common/tensor/host_view.hpp"
#include "common/train/weights/piece_runs.hpp"

namespace ultra::mixed_precision {
namespace {

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

/// The weight step of the pieces of a data group.
class WeightSteps {
 public:
  WeightSteps(WeightStepRule rule, optim::AdamWUpdate adamw, std::vector<train::OwnedPiece> pieces)
      : rule_(std::move(rule)), adamw_(std::move(adamw)), pieces_(std::move(pieces)) {}

  void operator()(std::size_t i, const optim::TensorUpdate& update, const optim::Moments& moments,
                  const ops::AdamWStep& constants) const {
    if (rule_.figures) rule_.figures->count_gradient(update.grad);
    if (update.master.defined()) {
      return update_with_master(weight_update(update, moments), update.master, adamw_, constants);
    }
    if (is_half(update.value.dtype())) return step_rounded(i, update, moments, constants);
    adamw_(update.value, cast(update.grad, update.value.dtype()), moments.first, moments.second,
           constants);
  }

 private:
  static WeightUpdate weight_update(const optim::TensorUpdate& update,
                                    const optim::Moments& moments) {
    return {.weights = update.value, .gradient = update.grad, .moments = moments};
  }

  void step_rounded(std::size_t i, const optim::TensorUpdate& update, const optim::Moments& moments,
                    const ops::AdamWStep& constants) const {
    Tensor before;
    if (rule_.figures) before = update.value.clone();
    const Tensor wide = update_without_master(weight_update(update, moments), adamw_, constants);
    if (rule_.rounding == Rounding::kStochastic) {
      round_by_chance(wide, update.value, pieces_.at(i), rule_.seed, constants.step);
    }
    if (rule_.figures) rule_.figures->count_update(before, wide, update.value);
  }

  WeightStepRule rule_;
  optim::AdamWUpdate adamw_;
  std::vector<train::OwnedPiece> pieces_;
};

}  // namespace

train::MakeWeightStep weight_steps(const WeightStepRule& rule) {
  return [rule](const optim::AdamWUpdate& adamw,
                const std::vector<train::OwnedPiece>& pieces) -> optim::WeightStep {
    return WeightSteps(rule, adamw, pieces);
  };
}

}  // namespace ultra::mixed_precision

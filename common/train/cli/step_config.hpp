#pragma once
/// @file
/// StepConfig: what techniques put into the training of a rank.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/errors.hpp"
#include "common/nn/layer_factory.hpp"
#include "common/optim/rules.hpp"
#include "common/train/plan.hpp"
#include "common/train/step.hpp"

namespace ultra::train {

/// @brief Two techniques that want the same, as an error.
[[nodiscard]] ConfigError two_claims(std::string_view first, std::string_view second);

/// @brief Something that exactly one technique provides. An offer can be replaced by a later
/// technique's; a claim cannot be shared.
template <class T>
class Slot {
 public:
  /// @brief Provides a default: a later offer, or a claim, takes its place.
  void offer(T provider) {
    if (claimed_by_.empty()) provider_ = std::move(provider);
  }
  /// @brief Provides it for good.
  /// @param flags  that ask for it, for messages.
  /// @throws ConfigError that names both when another technique has claimed it.
  void claim(std::string_view flags, T provider) {
    if (!claimed_by_.empty()) throw two_claims(claimed_by_, flags);
    claimed_by_ = flags;
    provider_ = std::move(provider);
  }
  /// @brief What is provided; empty when nobody did.
  [[nodiscard]] const T& get() const { return provider_; }

 private:
  std::string claimed_by_;
  T provider_{};
};

/// Makes what makes matrices whole along an axis of a plan that splits them.
using MakeWholeAlong = std::function<MakeWhole(const Plan& plan)>;

/// @brief What techniques put into the training of a rank.
struct StepConfig {
  Slot<SplitRule> share;           ///< how the global batch is dealt out
  Slot<CutRule> cut;               ///< how a share becomes micro-batches
  Slot<ScheduleRule> schedule;     ///< in which order they pass
  Slot<CompletionRule> completes;  ///< when a gradient is complete
  Slot<MakeExchange> exchange;     ///< how whole gradients are added up; for replicated states
  Slot<MakeStates> states;         ///< what a rank keeps; ReplicatedStates unless claimed
  Slot<SumPartial> sum_partial;    ///< how partial gradients are added up
  /// How the optimizer changes a tensor: at first the rule without --optimizer.
  optim::Rule rule = optim::make_rule(optim::kDefaultRule);
  Slot<WrapRule> weight_rule;        ///< a rule for a rank's pieces around it; empty: none
  Slot<MakeStore> store;             ///< where the optimizer's states live; empty: on the device
  Slot<MakeWholeAlong> whole;        ///< along an axis that splits matrices; empty: none does
  Slot<MakeLossScaler> loss_scaler;  ///< a factor on the loss; empty: none
  nn::Values values = nn::Values::kAllocated;  ///< whether the model starts with weights
  Slot<MakeLinks> links;                       ///< between the chunks; empty: there is one chunk
  std::vector<MakeObserver> observers;         ///< of each step
};

/// Factories of layers, each around the one before: the last one is the model's.
using FactoryStack = std::vector<std::unique_ptr<nn::LayerFactory>>;

}  // namespace ultra::train

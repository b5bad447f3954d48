#pragma once
/// @file
/// GradientLedger: what a step has contributed to each gradient, and what is still to come.

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "common/nn/model.hpp"
#include "common/train/gradients/gradient_exchange.hpp"
#include "common/train/step_schedule.hpp"

namespace ultra::train {

/// The action of a schedule that completes the gradient of a parameter of these chunks.
/// @param chunks  those that use the parameter; at least one.
using CompletionRule = std::function<std::size_t(std::span<const Action> schedule,
                                                 std::span<const std::size_t> chunks)>;

/// @brief Parameters and the exchange that follows them.
struct FollowedGradients {
  std::vector<nn::Parameter*> parameters;  ///< as the exchange numbers them
  GradientExchange* exchange;              ///< outlives the ledger's use
};

/// @brief Counts the contributions to the gradients of a step, action by action.
///
/// A backward pass contributes once per layer that uses a parameter. How many contributions there
/// are follows from the schedule: several (micro-batches), none (a parameter that may be idle). A
/// parameter that may be idle and was gets a contribution of zeros at the end of the action.
class GradientLedger {
 public:
  /// @param chunks    of this rank's model; outlive this object's use.
  /// @param followed  what is told of whose gradients; each parameter stands in one of them at
  /// most.
  /// @param rule      empty: nothing is told to be complete before the step ends.
  GradientLedger(std::vector<nn::Model*> chunks, std::vector<FollowedGradients> followed,
                 CompletionRule rule);
  GradientLedger(const GradientLedger&) = delete;
  GradientLedger& operator=(const GradientLedger&) = delete;

  /// @brief A step with this schedule begins.
  void step_begins(std::span<const Action> schedule);
  /// @brief An action begins.
  void action_begins(std::size_t action);
  /// @brief That action ends.
  /// @throws ConfigError with the name of a parameter that got no gradient, or one too many.
  void action_ends();
  /// @brief All passes of the step are over.
  void step_ends();

 private:
  struct Entry {
    nn::Parameter* parameter;
    GradientExchange* exchange;       // null: nobody follows
    std::size_t number;               // of the parameter, for the exchange
    std::vector<std::size_t> chunks;  // that use it
    std::size_t completing = 0;       // action of this step
    std::size_t made = 0;             // contributions of the action under way
  };

  /// Contributions that the action under way makes to a gradient.
  [[nodiscard]] std::size_t uses(const Entry& entry) const;
  void added(std::size_t entry);
  void add_zeros(Entry& entry);
  void tell_actions(void (GradientExchange::*what)(std::size_t chunk));

  std::vector<nn::Model*> chunks_;
  CompletionRule rule_;
  std::vector<GradientExchange*> exchanges_;
  std::vector<Entry> entries_;
  std::vector<std::vector<std::size_t>> of_chunk_;  // entries, by chunk
  std::vector<Action> schedule_;                    // of the step under way
  std::size_t action_ = 0;
  bool counts_ = false;                // an action that makes gradients is under way
  std::vector<nn::HookHandle> hooks_;  // of the parameters
};

}  // namespace ultra::train

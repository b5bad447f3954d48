#pragma once
/// @file
/// StepObserver: follows a rank's steps.

#include "common/train/run/worker.hpp"
#include "common/train/step_schedule.hpp"

namespace ultra::train {

/// @brief Follows a rank's steps from outside: a table, a check, a delay, a trace.
class StepObserver {
 public:
  StepObserver() = default;
  StepObserver(const StepObserver&) = delete;
  StepObserver& operator=(const StepObserver&) = delete;
  virtual ~StepObserver() = default;

  /// @brief A step begins.
  virtual void step_begins([[maybe_unused]] const StepPlan& plan) {}
  /// @brief An action of the step's schedule begins.
  virtual void action_begins([[maybe_unused]] const Action& action) {}
  /// @brief That action has ended.
  virtual void action_ends([[maybe_unused]] const Action& action) {}
  /// @brief A step has updated the weights. May be collective.
  virtual void step_ends([[maybe_unused]] const StepPlan& plan) {}
  /// @brief A step has ended and updated nothing, since a gradient overflowed: what an observer moves
  /// as an optimizer moves weights has to stay. Unless told otherwise the same as step_ends().
  virtual void step_skipped(const StepPlan& plan) { step_ends(plan); }
  /// @brief A validation is over: what its passes have left behind has to go.
  virtual void validation_ends() {}
};

}  // namespace ultra::train

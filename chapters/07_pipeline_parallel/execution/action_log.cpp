#include "chapters/07_pipeline_parallel/execution/action_log.hpp"

#include <algorithm>

namespace ultra::pipeline_parallel {

using train::Action;
using train::ActionKind;

void ActionLog::step_begins() {
  ++step_;
  actions_.clear();
}

void ActionLog::action_begins(const Action& action) {
  action_ = action;
  begin_ = Clock::now();
  end_.reset();
  waited_for_input_ = 0;
  if (action.kind != ActionKind::kForward) return;
  peaks_.activations = std::max(peaks_.activations, ++with_activations_);
  peaks_.inputs = std::max(peaks_.inputs, ++with_inputs_);
}

void ActionLog::input_is_here() {
  const Clock::time_point now = Clock::now();
  waited_for_input_ = std::chrono::duration<double>(now - begin_).count();
  begin_ = now;
}

void ActionLog::action_ends(double waited) {
  const Clock::time_point end = end_.value_or(Clock::now());
  actions_.push_back({.action = action_, .begin = begin_, .end = end});
  Sum& sum = sums_[{action_.kind, action_.chunk}][step_ > 1 ? 1 : 0];
  sum.seconds += std::max(0.0, std::chrono::duration<double>(end - begin_).count() - waited);
  ++sum.count;
  count(action_);
}

void ActionLog::count(const Action& action) {
  const bool whole = action.kind == ActionKind::kBackward;
  if (whole || action.kind == ActionKind::kBackwardInput) --with_inputs_;
  if (whole || action.kind == ActionKind::kBackwardWeight) --with_activations_;
}

double ActionLog::seconds(ActionKind kind, std::size_t chunk) const {
  const auto found = sums_.find({kind, chunk});
  if (found == sums_.end()) return 0;
  const auto& [first, later] = found->second;
  const Sum& sum = later.count > 0 ? later : first;
  return sum.seconds / static_cast<double>(sum.count);
}

}  // namespace ultra::pipeline_parallel

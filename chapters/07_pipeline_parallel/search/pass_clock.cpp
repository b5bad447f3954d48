#include "chapters/07_pipeline_parallel/search/pass_clock.hpp"

#include <algorithm>

#include "common/base/errors.hpp"

namespace ultra::pipeline_parallel {

using train::Action;
using train::ActionKind;

PassClock::PassClock(const Placement& placement, std::size_t micro_batches, const CostModel& costs)
    : placement_(placement),
      micro_batches_(micro_batches),
      costs_(costs),
      free_(placement.stages(), 0),
      bytes_(placement.stages(), 0),
      inputs_(placement.parts() * micro_batches, kUnknown),
      gradients_(placement.parts() * micro_batches, kUnknown),
      links_(placement.stages() * placement.stages(), 0) {
  std::fill_n(inputs_.begin(), micro_batches, 0.0);
}

double PassClock::earliest(std::size_t stage, const Action& action) const {
  const std::size_t part = placement_.part_at({stage, action.chunk});
  switch (action.kind) {
    case ActionKind::kForward:
      return std::max(free_[stage], input_arrives(part, action.micro_batch));
    case ActionKind::kBackwardInput:
      return std::max(free_[stage], gradient_arrives(part, action.micro_batch));
    case ActionKind::kBackwardWeight:
      return free_[stage];
    default:
      throw InternalError("a search has split backward passes");
  }
}

PassClock::Change PassClock::run(std::size_t stage, const Action& action) {
  const std::size_t part = placement_.part_at({stage, action.chunk});
  const std::size_t at = part * micro_batches_ + action.micro_batch;
  const PartCost& cost = costs_.parts[part];
  Change change{.stage = stage, .free = free_[stage], .bytes = bytes_[stage]};
  const double end = earliest(stage, action) + costs_.seconds(action.kind, part);
  free_[stage] = end;
  if (action.kind == ActionKind::kForward) {
    bytes_[stage] += cost.saved_bytes;
    if (part + 1 == placement_.parts()) {
      change.arrival = &gradients_[at];
      gradients_[at] = end;
    } else {
      hand_over(part, part + 1, &inputs_[at + micro_batches_], end, change);
    }
  } else if (action.kind == ActionKind::kBackwardInput) {
    bytes_[stage] -= cost.saved_bytes - cost.saved_bytes_after_b;
    if (part > 0) hand_over(part, part - 1, &gradients_[at - micro_batches_], end, change);
  } else {
    bytes_[stage] -= cost.saved_bytes_after_b;
  }
  return change;
}

void PassClock::hand_over(std::size_t from_part, std::size_t to_part, double* arrival, double end,
                          Change& change) {
  change.arrival = arrival;
  const std::size_t from = placement_.at(from_part).stage;
  const std::size_t to = placement_.at(to_part).stage;
  if (from == to) {
    *arrival = end;
    return;
  }
  change.link = &links_[from * placement_.stages() + to];
  change.link_free = *change.link;
  *change.link = std::max(end, *change.link) + costs_.link.busy(costs_.message_bytes);
  *arrival = *change.link + costs_.link.latency;
}

void PassClock::undo(const Change& change) {
  free_[change.stage] = change.free;
  bytes_[change.stage] = change.bytes;
  if (change.arrival != nullptr) *change.arrival = kUnknown;
  if (change.link != nullptr) *change.link = change.link_free;
}

double PassClock::seconds() const { return std::ranges::max(free_); }

std::optional<double> seconds_of(const PipelineSchedule& schedule, const CostModel& costs,
                                 double most_bytes) {
  PassClock clock(schedule.placement, schedule.micro_batches, costs);
  std::vector<std::size_t> next(schedule.stages(), 0);
  std::size_t left = 0;
  for (const auto& list : schedule.ranks) left += list.size();
  for (bool has_moved = true; has_moved && left > 0;) {
    has_moved = false;
    for (std::size_t stage = 0; stage < next.size(); ++stage) {
      const auto& list = schedule.ranks[stage];
      while (next[stage] < list.size() &&
             clock.earliest(stage, list[next[stage]]) != PassClock::kUnknown) {
        clock.run(stage, list[next[stage]++]);
        if (clock.bytes(stage) > most_bytes) return {};
        has_moved = true;
        --left;
      }
    }
  }
  if (left > 0) return {};
  return clock.seconds();
}

}  // namespace ultra::pipeline_parallel

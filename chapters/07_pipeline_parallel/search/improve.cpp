#include "chapters/07_pipeline_parallel/search/improve.hpp"

#include <algorithm>
#include <random>

#include "chapters/07_pipeline_parallel/search/pass_clock.hpp"
#include "common/base/interrupt.hpp"

namespace ultra::pipeline_parallel {
namespace {

using train::Action;
using train::ActionKind;
using train::StepSchedule;

/// Whether two passes of a rank have to stay in their order.
bool depend(const Action& one, const Action& other) {
  return one.chunk == other.chunk &&
         (one.kind == other.kind || one.micro_batch == other.micro_batch);
}

/// Takes the pass at `from` to `to`; false, and nothing changed, when one between depends on it.
bool move_pass(StepSchedule& list, std::size_t from, std::size_t to) {
  const Action moved = list[from];
  const auto at = [&](std::size_t i) { return list.begin() + static_cast<std::ptrdiff_t>(i); };
  if (from < to) {
    if (std::any_of(at(from + 1), at(to + 1), [&](const Action& a) { return depend(a, moved); })) {
      return false;
    }
    std::rotate(at(from), at(from + 1), at(to + 1));
  } else {
    if (std::any_of(at(to), at(from), [&](const Action& a) { return depend(a, moved); })) {
      return false;
    }
    std::rotate(at(to), at(from), at(from + 1));
  }
  return true;
}

}  // namespace

PipelineSchedule split_backward(const PipelineSchedule& schedule) {
  PipelineSchedule split = schedule;
  split.overlapped.clear();
  for (StepSchedule& list : split.ranks) {
    StepSchedule longer;
    for (const Action& action : list) {
      if (action.kind != ActionKind::kBackward) {
        longer.push_back(action);
        continue;
      }
      longer.push_back({ActionKind::kBackwardInput, action.micro_batch, action.chunk});
      longer.push_back({ActionKind::kBackwardWeight, action.micro_batch, action.chunk});
    }
    list = std::move(longer);
  }
  return split;
}

PipelineSchedule improved(PipelineSchedule schedule, const CostModel& costs, double most_bytes,
                          std::size_t tries) {
  constexpr std::uint64_t kSeed = 7;
  constexpr std::size_t kFarthest = 6;  // places; farther moves are made of several
  auto best = seconds_of(schedule, costs, most_bytes);
  if (!best) return schedule;
  std::mt19937_64 engine(kSeed);
  const auto below = [&](std::size_t bound) { return static_cast<std::size_t>(engine() % bound); };
  for (std::size_t i = 0; i < tries; ++i) {
    throw_if_interrupted();
    StepSchedule& list = schedule.ranks[below(schedule.stages())];
    const std::size_t from = below(list.size());
    const std::size_t low = from > kFarthest ? from - kFarthest : 0;
    const std::size_t to = low + below(std::min(list.size(), from + kFarthest + 1) - low);
    if (from == to || !move_pass(list, from, to)) continue;
    const auto seconds = seconds_of(schedule, costs, most_bytes);
    if (seconds && *seconds <= *best) {
      best = seconds;
    } else {
      move_pass(list, to, from);
    }
  }
  return schedule;
}

}  // namespace ultra::pipeline_parallel

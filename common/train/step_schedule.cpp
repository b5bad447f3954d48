#include "common/train/step_schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "common/base/errors.hpp"

namespace ultra::train {
namespace {

/// How far a micro-batch has come in a chunk.
enum class Reached : std::uint8_t { kNothing, kForward, kInput, kDone, kUpdated };

/// Where an action leads, if it may come where a micro-batch stands.
bool leads_on(ActionKind kind, Reached& reached) {
  const Reached before = reached;
  switch (kind) {
    case ActionKind::kForward:
      reached = Reached::kForward;
      return before == Reached::kNothing;
    case ActionKind::kBackward:
      reached = Reached::kDone;
      return before == Reached::kForward;
    case ActionKind::kBackwardInput:
      reached = Reached::kInput;
      return before == Reached::kForward;
    case ActionKind::kBackwardWeight:
      reached = Reached::kDone;
      return before == Reached::kInput;
    case ActionKind::kUpdate:
      reached = Reached::kUpdated;
      return before == Reached::kDone;
  }
  return false;
}

}  // namespace

std::string Action::str() const {
  constexpr const char* kNames[] = {"F", "BW", "B", "W", "U"};
  const std::string name = fmt::format("{}{}", kNames[static_cast<int>(kind)], micro_batch);
  return chunk == 0 ? name : fmt::format("{}.{}", name, chunk);
}

bool updates_between(std::span<const Action> schedule) {
  return std::ranges::any_of(
      schedule, [](const Action& action) { return action.kind == ActionKind::kUpdate; });
}

StepSchedule forwards_of(const StepSchedule& schedule) {
  StepSchedule forwards;
  std::ranges::copy_if(schedule, std::back_inserter(forwards),
                       [](const Action& action) { return action.kind == ActionKind::kForward; });
  return forwards;
}

void expect_complete(std::span<const Action> schedule, std::size_t micro_batches,
                     std::size_t chunks) {
  std::vector<Reached> reached(micro_batches * chunks, Reached::kNothing);
  for (const Action& action : schedule) {
    if (action.micro_batch >= micro_batches || action.chunk >= chunks) {
      throw InternalError(
          fmt::format("the schedule has {}, but there are {} micro-batches and {} chunks",
                      action.str(), micro_batches, chunks));
    }
    if (!leads_on(action.kind, reached[action.micro_batch * chunks + action.chunk])) {
      throw InternalError(
          fmt::format("the schedule has {} twice, or before what must come first", action.str()));
    }
  }
  const Reached last = updates_between(schedule) ? Reached::kUpdated : Reached::kDone;
  for (std::size_t i = 0; i < reached.size(); ++i) {
    if (reached[i] == last) continue;
    throw InternalError(fmt::format("the schedule ends before micro-batch {} has passed chunk {}{}",
                                    i / chunks, i % chunks,
                                    reached[i] == Reached::kDone ? " and updated it" : ""));
  }
}

}  // namespace ultra::train

#include "common/train/step_schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "common/base/errors.hpp"

namespace ultra::train {
namespace {

/// How far a micro-batch has come in a chunk.
enum class Progress : std::uint8_t { kNothing, kForward, kInput, kDone, kUpdated };

/// Where an action leads, if it may come where a micro-batch stands.
bool leads_on(ActionKind kind, Progress& progress) {
  const Progress before = progress;
  switch (kind) {
    case ActionKind::kForward:
      progress = Progress::kForward;
      return before == Progress::kNothing;
    case ActionKind::kBackward:
      progress = Progress::kDone;
      return before == Progress::kForward;
    case ActionKind::kBackwardInput:
      progress = Progress::kInput;
      return before == Progress::kForward;
    case ActionKind::kBackwardWeight:
      progress = Progress::kDone;
      return before == Progress::kInput;
    case ActionKind::kUpdate:
      progress = Progress::kUpdated;
      return before == Progress::kDone;
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
  std::vector<Progress> progress(micro_batches * chunks, Progress::kNothing);
  for (const Action& action : schedule) {
    if (action.micro_batch >= micro_batches || action.chunk >= chunks) {
      throw InternalError(
          fmt::format("the schedule has {}, but there are {} micro-batches and {} chunks",
                      action.str(), micro_batches, chunks));
    }
    if (!leads_on(action.kind, progress[action.micro_batch * chunks + action.chunk])) {
      throw InternalError(
          fmt::format("the schedule has {} twice, or before what must come first", action.str()));
    }
  }
  const Progress last = updates_between(schedule) ? Progress::kUpdated : Progress::kDone;
  for (std::size_t i = 0; i < progress.size(); ++i) {
    if (progress[i] == last) continue;
    throw InternalError(fmt::format("the schedule ends before micro-batch {} has passed chunk {}{}",
                                    i / chunks, i % chunks,
                                    progress[i] == Progress::kDone ? " and updated it" : ""));
  }
}

}  // namespace ultra::train

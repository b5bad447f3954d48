#include "chapters/07_pipeline_parallel/schedule/make_schedule.hpp"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "chapters/07_pipeline_parallel/lists/schedules.hpp"
#include "common/base/errors.hpp"

namespace ultra::pipeline_parallel {
namespace {

using train::StepSchedule;

/// Of all ranks: their passes and messages take some gigabytes.
constexpr std::size_t kMostForwardPasses = 1U << 22U;

/// A pass behind which the weights are updated at once.
StepSchedule with_updates(const StepSchedule& list) {
  StepSchedule updated;
  for (const train::Action& action : list) {
    updated.push_back(action);
    if (!action.makes_gradients()) continue;
    updated.push_back({train::ActionKind::kUpdate, action.micro_batch, action.chunk});
  }
  return updated;
}

}  // namespace

Placement placement_of(const ScheduleChoice& choice, std::size_t stages) {
  return choice.is_v_shaped() ? Placement::v_shape(stages)
                              : Placement::loop(stages, choice.chunks());
}

void expect_possible(const ScheduleChoice& choice, std::size_t stages, std::size_t micro_batches) {
  if (stages == 0 || micro_batches == 0) {
    throw ConfigError(
        fmt::format("schedule {} on {} stages with {} micro-batches: there must be at least one of "
                    "each.",
                    choice.str(), stages, micro_batches));
  }
  if (micro_batches > kMostForwardPasses / (stages * choice.chunks())) {
    throw ConfigError(fmt::format(
        "schedule {} on {} stages with {} micro-batches: a schedule has at most {} forward passes. "
        "Choose fewer and larger micro-batches.",
        choice.str(), stages, micro_batches, kMostForwardPasses));
  }
  if (choice.takes(micro_batches, stages)) return;
  const std::size_t below = micro_batches / stages * stages;
  throw ConfigError(fmt::format(
      "schedule {} passes micro-batches in groups of as many as there are stages, so their number "
      "must be a multiple: {} % {} = {}. Choose {}{} micro-batches, or schedule 1f1b, which takes "
      "any number.",
      choice.str(), micro_batches, stages, micro_batches % stages,
      below > 0 ? fmt::format("{} or ", below) : "", below + stages));
}

PipelineSchedule make_schedule(const ScheduleChoice& choice, std::size_t stages,
                               std::size_t micro_batches) {
  expect_possible(choice, stages, micro_batches);
  const Schedule& row = choice.row();
  PipelineSchedule schedule{.name = choice.str(),
                            .placement = placement_of(choice, stages),
                            .micro_batches = micro_batches,
                            .ranks = {}};
  for (std::size_t stage = 0; stage < stages; ++stage) {
    RankList rank =
        row.list({.stage = stage, .stages = stages, .chunks = choice.chunks()}, micro_batches);
    schedule.ranks.push_back(row.updates ? with_updates(rank.list) : std::move(rank.list));
    schedule.overlapped.push_back(std::move(rank.pairs));
  }
  return schedule;
}

}  // namespace ultra::pipeline_parallel

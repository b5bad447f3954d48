#include "chapters/07_pipeline_parallel/schedule/make_schedule.hpp"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "chapters/07_pipeline_parallel/lists/afab_list.hpp"
#include "chapters/07_pipeline_parallel/lists/interleaved_list.hpp"
#include "chapters/07_pipeline_parallel/lists/list_builder.hpp"
#include "chapters/07_pipeline_parallel/lists/one_f_one_b_list.hpp"
#include "chapters/07_pipeline_parallel/lists/zero_bubble_lists.hpp"
#include "common/base/errors.hpp"

namespace ultra::pipeline_parallel {
namespace {

using train::ActionKind;
using train::StepSchedule;

/// Of all ranks: their passes and messages take some gigabytes.
constexpr std::size_t kMostForwardPasses = 1U << 22U;

StepSchedule naive_list(std::size_t micro_batches) {
  StepSchedule list;
  for (std::size_t i = 0; i < micro_batches; ++i) {
    list.push_back({.kind = ActionKind::kForward, .micro_batch = i});
    list.push_back({.kind = ActionKind::kBackward, .micro_batch = i});
  }
  return list;
}

/// A pass behind which the weights are updated at once.
StepSchedule with_updates(const StepSchedule& list) {
  StepSchedule updated;
  for (const train::Action& action : list) {
    updated.push_back(action);
    if (!action.makes_gradients()) continue;
    updated.push_back({ActionKind::kUpdate, action.micro_batch, action.chunk});
  }
  return updated;
}

/// A rank's passes, and which of them overlap.
struct RankList {
  StepSchedule list;
  std::vector<std::size_t> pairs = {};

  RankList(StepSchedule passes) : list(std::move(passes)) {}
  RankList(const ListBuilder& built) : list(built.list()), pairs(built.pairs()) {}
};

RankList list_of(const ScheduleChoice& choice, std::size_t stage, std::size_t stages,
                 std::size_t micro_batches) {
  switch (choice.kind) {
    case ScheduleKind::kNaive:
      return naive_list(micro_batches);
    case ScheduleKind::kAfab:
      return afab_list(micro_batches);
    case ScheduleKind::kOneFOneB:
      return one_f_one_b_list(stage, stages, micro_batches);
    case ScheduleKind::kInterleaved:
      return interleaved_list({.stage = stage, .stages = stages, .chunks = choice.chunks()},
                              micro_batches);
    case ScheduleKind::kZeroBubbleH1:
      return zero_bubble_list(ZeroBubble::kH1, stage, stages, micro_batches);
    case ScheduleKind::kZeroBubbleH2:
      return zero_bubble_list(ZeroBubble::kH2, stage, stages, micro_batches);
    case ScheduleKind::kZbV:
      return zb_v_list(stage, stages, micro_batches);
    case ScheduleKind::kDualPipeV:
      return dual_pipe_v_list(stage, stages, micro_batches);
    case ScheduleKind::kPipedreamAsync:
      return with_updates(one_f_one_b_list(stage, stages, micro_batches));
  }
  throw InternalError("a schedule has no list");
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
  if (choice.kind != ScheduleKind::kInterleaved || micro_batches % stages == 0) return;
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
  PipelineSchedule schedule{.name = choice.str(),
                            .placement = placement_of(choice, stages),
                            .micro_batches = micro_batches,
                            .ranks = {}};
  for (std::size_t stage = 0; stage < stages; ++stage) {
    RankList rank = list_of(choice, stage, stages, micro_batches);
    schedule.ranks.push_back(std::move(rank.list));
    schedule.overlapped.push_back(std::move(rank.pairs));
  }
  return schedule;
}

}  // namespace ultra::pipeline_parallel

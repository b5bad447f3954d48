#include "chapters/07_pipeline_parallel/search/greedy.hpp"

#include <algorithm>

#include "chapters/07_pipeline_parallel/search/pass_clock.hpp"
#include "common/base/interrupt.hpp"

namespace ultra::pipeline_parallel {
namespace {

using train::Action;
using train::ActionKind;

/// A pass, and when it would begin.
struct Candidate {
  Action action;
  double begin = PassClock::kUnknown;
};

/// Where a rank stands.
class Rank {
 public:
  Rank(std::size_t stage, const Placement& placement)
      : stage_(stage),
        chunks_(placement.chunks()),
        counts_(3 * chunks_, 0),
        stages_behind_(placement.stages() - 1 - stage) {}

  /// What it would do next; kUnknown: it does not know yet.
  [[nodiscard]] Candidate choose(const PassClock& clock, std::size_t micro_batches,
                                 const CostModel& costs, const Placement& placement,
                                 const GreedyRule& rule) const {
    Candidate forward = next(ActionKind::kForward, clock, micro_batches);
    const Candidate backward = next(ActionKind::kBackwardInput, clock, micro_batches);
    const Candidate weight = next(ActionKind::kBackwardWeight, clock, micro_batches);
    const double now = clock.free(stage_);
    bool is_full = false;
    if (forward.begin != PassClock::kUnknown) {
      const std::size_t part = placement.part_at({stage_, forward.action.chunk});
      is_full = clock.bytes(stage_) + costs.parts[part].saved_bytes > rule.most_bytes;
      const bool is_warm = under_way() >= rule.warmup + rule.slope * stages_behind_;
      if (is_full || is_warm) forward.begin = PassClock::kUnknown;
    }
    const Candidate first = backward.begin <= std::max(now, forward.begin) ? backward : forward;
    if (weight.begin == PassClock::kUnknown || first.begin <= now) return first;
    const std::size_t part = placement.part_at({stage_, weight.action.chunk});
    const double gap = rule.least_gap * costs.parts[part].backward_weight;
    return is_full || first.begin - now >= gap ? weight : first;
  }

  void done(const Action& action) { ++count(action.kind, action.chunk); }

 private:
  static std::size_t row(ActionKind kind) {
    if (kind == ActionKind::kForward) return 0;
    return kind == ActionKind::kBackwardInput ? 1 : 2;
  }
  std::size_t& count(ActionKind kind, std::size_t chunk) {
    return counts_[row(kind) * chunks_ + chunk];
  }
  [[nodiscard]] std::size_t count(ActionKind kind, std::size_t chunk) const {
    return counts_[row(kind) * chunks_ + chunk];
  }

  [[nodiscard]] std::size_t under_way() const {
    std::size_t sum = 0;
    for (std::size_t chunk = 0; chunk < chunks_; ++chunk) {
      sum += count(ActionKind::kForward, chunk) - count(ActionKind::kBackwardInput, chunk);
    }
    return sum;
  }

  /// Of all chunks the pass that can begin first; of equal ones that nearest to the head.
  [[nodiscard]] Candidate next(ActionKind kind, const PassClock& clock,
                               std::size_t micro_batches) const {
    Candidate best;
    for (std::size_t chunk = chunks_; chunk-- > 0;) {
      const std::size_t before =
          kind == ActionKind::kForward
              ? micro_batches
              : count(kind == ActionKind::kBackwardInput ? ActionKind::kForward
                                                         : ActionKind::kBackwardInput,
                      chunk);
      if (count(kind, chunk) == before) continue;
      const Action action{.kind = kind, .micro_batch = count(kind, chunk), .chunk = chunk};
      const double begin = clock.earliest(stage_, action);
      if (begin < best.begin) best = {.action = action, .begin = begin};
    }
    return best;
  }

  std::size_t stage_;
  std::size_t chunks_;
  std::vector<std::size_t> counts_;  // F, B, W by chunk
  std::size_t stages_behind_;
};

}  // namespace

std::optional<PipelineSchedule> greedy_schedule(const Placement& placement,
                                                std::size_t micro_batches, const CostModel& costs,
                                                const GreedyRule& rule) {
  PipelineSchedule schedule{.name = "greedy",
                            .placement = placement,
                            .micro_batches = micro_batches,
                            .ranks = std::vector<train::StepSchedule>(placement.stages())};
  std::vector<Rank> ranks;
  for (std::size_t stage = 0; stage < placement.stages(); ++stage) {
    ranks.emplace_back(stage, placement);
  }
  PassClock clock(placement, micro_batches, costs);
  for (std::size_t left = 3 * placement.parts() * micro_batches; left > 0; --left) {
    throw_if_interrupted();
    // The rank that goes on first: what others do later cannot change what it knows.
    std::size_t at = 0;
    Candidate first;
    for (std::size_t stage = 0; stage < ranks.size(); ++stage) {
      const Candidate candidate = ranks[stage].choose(clock, micro_batches, costs, placement, rule);
      if (candidate.begin >= first.begin) continue;
      first = candidate;
      at = stage;
    }
    if (first.begin == PassClock::kUnknown) return {};
    clock.run(at, first.action);
    ranks[at].done(first.action);
    schedule.ranks[at].push_back(first.action);
  }
  return schedule;
}

std::vector<GreedyRule> greedy_rules(const Placement& placement, double most_bytes) {
  std::vector<GreedyRule> rules;
  const std::size_t chunks = placement.chunks();
  for (const std::size_t slope : {std::size_t{0}, std::size_t{1}, std::size_t{2}}) {
    for (const std::size_t warmup :
         {std::size_t{1}, std::size_t{2}, chunks, placement.stages(), placement.parts(),
          placement.parts() + placement.stages(), 2 * placement.parts()}) {
      for (const double gap : {0.0, 0.5, 1.0}) {
        rules.push_back({.warmup = warmup,
                         .slope = slope * chunks,
                         .least_gap = gap,
                         .most_bytes = most_bytes});
      }
    }
  }
  return rules;
}

}  // namespace ultra::pipeline_parallel

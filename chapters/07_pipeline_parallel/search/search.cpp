#include "chapters/07_pipeline_parallel/search/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "chapters/07_pipeline_parallel/lists/schedules.hpp"
#include "chapters/07_pipeline_parallel/schedule/make_schedule.hpp"
#include "chapters/07_pipeline_parallel/schedule/pipeline_schedule.hpp"
#include "chapters/07_pipeline_parallel/search/branch_and_bound.hpp"
#include "chapters/07_pipeline_parallel/search/pass_clock.hpp"
#include "chapters/07_pipeline_parallel/simulate/cost_model.hpp"
#include "chapters/07_pipeline_parallel/simulate/simulator.hpp"
#include "common/base/errors.hpp"
#include "common/base/interrupt.hpp"

namespace ultra::pipeline_parallel {
namespace {

using train::Action;
using train::ActionKind;
using train::StepSchedule;

/// What a rank prefers: B before F, and W when neither can begin soon, or there is no room
/// for a further F.
/// Source: Qi et al. 2023, arXiv 2401.10241, section 3.1: a warm-up and a threshold for gaps,
/// varied.
struct GreedyRule {
  std::size_t warmup = 1;  ///< passes forward but not backward, at most, on the last rank
  std::size_t slope = 1;   ///< more of them for each rank before
  double least_gap = 1;    ///< that W fills, over the seconds of a W
  /// Bytes of activations on a rank, at most.
  double most_bytes = std::numeric_limits<double>::infinity();
};

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

/// The schedule of a rule; nothing when it leaves no room to go on.
/// @throws Interrupted when the program is told to stop.
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

/// Rules that differ in warm-up and gaps.
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

/// Stages times micro-batches: some seconds.
constexpr std::size_t kMostToSearch = 1U << 12U;

void expect_small(const SearchQuestion& question) {
  if (question.micro_batches <= kMostToSearch / question.stages) return;
  throw ConfigError(fmt::format(
      "{} stages and {} micro-batches are {} forward passes, but a search takes at most {}. Choose "
      "fewer, or a schedule by its name.",
      question.stages, question.micro_batches, question.stages * question.micro_batches,
      kMostToSearch));
}

/// The best so far, and where it is from.
class Best {
 public:
  explicit Best(double most_bytes) : most_bytes_(most_bytes) {}

  /// Takes a schedule when it fits and ends earlier. Returns its seconds, if it fits.
  std::optional<double> offer(const PipelineSchedule& schedule, const CostModel& costs,
                              const std::string& from) {
    SimulatedStep step = simulate(schedule, costs);
    if (!fits(step, most_bytes_)) return {};
    const double seconds = step.seconds();
    if (!found_ || seconds < found_->step.seconds()) {
      found_ = FoundSchedule{.schedule = schedule, .step = std::move(step), .from = from};
    }
    return seconds;
  }

  [[nodiscard]] std::optional<FoundSchedule>& found() { return found_; }

 private:
  double most_bytes_;
  std::optional<FoundSchedule> found_;
};

bool is_comparable(const ScheduleChoice& choice, const SearchQuestion& question) {
  return !choice.row().updates && choice.chunks() <= question.most_chunks &&
         choice.takes(question.micro_batches, question.stages);
}

/// The published schedules; returns the seconds of the best that fits.
double offer_published(const SearchQuestion& question, Best& best) {
  double least = std::numeric_limits<double>::infinity();
  for (const ScheduleChoice& choice : published_schedules()) {
    if (!is_comparable(choice, question)) continue;
    const auto schedule = make_schedule(choice, question.stages, question.micro_batches);
    const auto seconds = best.offer(schedule, question.costs.on(schedule.placement), schedule.name);
    if (seconds) least = std::min(least, *seconds);
  }
  return least;
}

// Local search: a schedule, changed in one place at a time ----------------------------------------

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

/// The schedule with split backward passes and without overlaps.
PipelineSchedule with_split_backward(const PipelineSchedule& schedule) {
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

/// Moves single passes of a rank to other places of its list, and keeps what does not end
/// later. Micro-batches stay in their order. The same arguments give the same schedule.
/// @param schedule  of F, B and W.
/// @param tries     moves that are tried.
/// @throws Interrupted when the program is told to stop.
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

// All ways ----------------------------------------------------------------------------------------

/// Greedy lists on a placement, and the best of all there, improved.
void offer_heuristics(const SearchQuestion& question, const Placement& placement, Best& best) {
  const CostModel costs = question.costs.on(placement);
  std::optional<PipelineSchedule> start;
  double least = std::numeric_limits<double>::infinity();
  const auto start_from = [&](const PipelineSchedule& schedule) {
    const auto seconds = seconds_of(schedule, costs, question.most_bytes);
    if (!seconds || *seconds >= least) return;
    least = *seconds;
    start = schedule;
  };
  for (const GreedyRule& rule : greedy_rules(placement, question.most_bytes)) {
    const auto schedule = greedy_schedule(placement, question.micro_batches, costs, rule);
    if (schedule) start_from(*schedule);
  }
  if (start) best.offer(*start, costs, "greedy");
  for (const ScheduleChoice& choice : published_schedules()) {
    if (choice.chunks() != placement.chunks() || !is_comparable(choice, question)) continue;
    if (choice.is_v_shaped() != (placement.chunks() == 2)) continue;
    start_from(with_split_backward(make_schedule(choice, question.stages, question.micro_batches)));
  }
  if (!start) return;
  best.offer(improved(*start, costs, question.most_bytes, question.most_tries), costs, "improved");
}

}  // namespace

bool fits(const SimulatedStep& step, double most_bytes) {
  constexpr double kRounding = 1e-9;
  return std::ranges::all_of(step.ranks, [&](const SimulatedRank& rank) {
    return rank.peak_bytes <= most_bytes * (1 + kRounding);
  });
}

FoundSchedule search_schedule(const SearchQuestion& question) {
  expect_small(question);
  Best best(question.most_bytes);
  const double published = offer_published(question, best);
  const Placement line = Placement::loop(question.stages);
  offer_heuristics(question, line, best);
  if (question.stages > 1 && question.most_chunks > 1) {
    offer_heuristics(question, Placement::v_shape(question.stages), best);
  }
  if (!best.found()) {
    throw ConfigError(
        fmt::format("no schedule of {} stages keeps to {:g} times what a micro-batch leaves in a "
                    "stage: a single "
                    "one has 1. Allow more activations.",
                    question.stages, question.most_bytes / question.costs.stage.saved_bytes));
  }
  const CostModel costs = question.costs.on(line);
  const double bound = best.found()->step.seconds();
  const BoundedSearch bounded = branch_and_bound(line, question.micro_batches, costs,
                                                 question.most_bytes, bound, question.most_nodes);
  if (bounded.better) best.offer(*bounded.better, costs, "branch and bound");
  FoundSchedule found = std::move(*best.found());
  found.schedule.name = "search";
  found.best_published = published;
  // What branch and bound has found counts, should simulated messages take longer than it thought.
  const bool is_as_good = !bounded.better || found.from == "branch and bound";
  found.is_optimal = bounded.is_complete && is_as_good;
  return found;
}

}  // namespace ultra::pipeline_parallel

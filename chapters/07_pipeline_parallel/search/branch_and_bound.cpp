#include "chapters/07_pipeline_parallel/search/branch_and_bound.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "chapters/07_pipeline_parallel/search/pass_clock.hpp"
#include "common/base/errors.hpp"
#include "common/base/interrupt.hpp"

namespace ultra::pipeline_parallel {
namespace {

using train::Action;
using train::ActionKind;

constexpr std::array kKinds = {ActionKind::kBackwardInput, ActionKind::kForward,
                               ActionKind::kBackwardWeight};

/// Passes of a rank that are over.
struct Counts {
  std::size_t forward = 0;
  std::size_t input = 0;
  std::size_t weight = 0;

  std::size_t& of(ActionKind kind) {
    if (kind == ActionKind::kForward) return forward;
    return kind == ActionKind::kBackwardInput ? input : weight;
  }
};

/// A pass that can come next.
struct Choice {
  Action action;
  double begin;
  double end;
};

class Search {
 public:
  Search(const Placement& placement, std::size_t micro_batches, const CostModel& costs,
         double most_bytes, double bound, std::size_t most_nodes)
      : micro_batches_(micro_batches),
        costs_(costs),
        most_bytes_(most_bytes),
        bound_(bound),
        most_nodes_(most_nodes),
        clock_(placement, micro_batches, costs),
        counts_(placement.stages()),
        way_back_(placement.stages(), costs.parts[0].backward_weight),
        now_{.name = "search",
             .placement = placement,
             .micro_batches = micro_batches,
             .ranks = std::vector<train::StepSchedule>(placement.stages())} {
    for (std::size_t stage = 1; stage < counts_.size(); ++stage) {
      way_back_[stage] = way_back_[stage - 1] + hop() + costs.parts[stage - 1].backward_input;
    }
  }

  BoundedSearch run() {
    result_.is_complete = true;
    branch();
    return std::move(result_);
  }

 private:
  [[nodiscard]] double hop() const {
    return costs_.link.latency + costs_.link.busy(costs_.message_bytes);
  }

  [[nodiscard]] std::optional<Choice> next(std::size_t stage, ActionKind kind) const {
    const Counts& counts = counts_[stage];
    std::size_t micro_batch = counts.forward;
    std::size_t before = micro_batches_;
    if (kind == ActionKind::kBackwardInput) {
      micro_batch = counts.input;
      before = counts.forward;
    } else if (kind == ActionKind::kBackwardWeight) {
      micro_batch = counts.weight;
      before = counts.input;
    } else if (clock_.bytes(stage) + costs_.parts[stage].saved_bytes > most_bytes_) {
      return {};
    }
    if (micro_batch == before) return {};
    const Action action{.kind = kind, .micro_batch = micro_batch};
    const double begin = clock_.earliest(stage, action);
    if (begin == PassClock::kUnknown) return {};
    return Choice{action, begin, begin + costs_.seconds(kind, stage)};
  }

  /// Seconds at which the step cannot end before, whatever comes.
  [[nodiscard]] double lower_bound() const {
    double bound = 0;
    double first_input = 0;  // when the next F of the stage can have its input, at best
    for (std::size_t stage = 0; stage < counts_.size(); ++stage) {
      const Counts& counts = counts_[stage];
      const PartCost& cost = costs_.parts[stage];
      const auto forwards = static_cast<double>(micro_batches_ - counts.forward);
      const auto inputs = static_cast<double>(micro_batches_ - counts.input);
      const auto weights = static_cast<double>(micro_batches_ - counts.weight);
      double begin = clock_.free(stage);
      if (counts.forward < micro_batches_) {
        const double known = clock_.input_arrives(stage, counts.forward);
        const double input =
            std::max(clock_.free(stage), known == PassClock::kUnknown ? first_input : known);
        // Without work that is there already, the rank waits for it.
        if (counts.weight == counts.forward) begin = input;
        first_input = input + cost.forward + hop();
      }
      const double needed = forwards * cost.forward + inputs * cost.backward_input;
      bound = std::max(bound, begin + needed + weights * cost.backward_weight);
      if (counts.input < micro_batches_) bound = std::max(bound, begin + needed + way_back_[stage]);
    }
    return bound;
  }

  /// Whether a way to the same passes was at least as early in everything.
  bool is_dominated() {
    std::string key;
    std::vector<double> times;
    for (std::size_t stage = 0; stage < counts_.size(); ++stage) {
      const Counts& counts = counts_[stage];
      for (const std::size_t count : {counts.forward, counts.input, counts.weight}) {
        key += static_cast<char>(count);
      }
      times.push_back(clock_.free(stage));
      const std::size_t sent = stage > 0 ? counts_[stage - 1].forward : counts.forward;
      for (std::size_t i = counts.forward; i < sent; ++i) {
        times.push_back(clock_.input_arrives(stage, i));
      }
      const bool is_last = stage + 1 == counts_.size();
      const std::size_t returned = is_last ? counts.forward : counts_[stage + 1].input;
      for (std::size_t i = counts.input; i < returned; ++i) {
        times.push_back(clock_.gradient_arrives(stage, i));
      }
    }
    auto& seen = seen_[key];
    const auto is_no_later = [&](const std::vector<double>& other) {
      return std::ranges::equal(other, times, [](double a, double b) { return a <= b; });
    };
    if (std::ranges::any_of(seen, is_no_later)) return true;
    std::erase_if(seen, [&](const std::vector<double>& other) {
      return std::ranges::equal(times, other, [](double a, double b) { return a <= b; });
    });
    seen.push_back(std::move(times));
    return false;
  }

  void branch() {
    // A bound that is only rounding away is no better schedule.
    constexpr double kRounding = 1e-9;
    if (lower_bound() >= bound_ * (1 - kRounding)) return;
    if (is_dominated()) return;
    double first_end = PassClock::kUnknown;
    std::size_t at = 0;
    for (std::size_t stage = 0; stage < counts_.size(); ++stage) {
      for (const ActionKind kind : kKinds) {
        const auto choice = next(stage, kind);
        if (!choice || choice->end >= first_end) continue;
        first_end = choice->end;
        at = stage;
      }
    }
    if (first_end == PassClock::kUnknown) return finish();
    std::vector<Choice> choices;
    for (const ActionKind kind : kKinds) {
      const auto choice = next(at, kind);
      const bool can_be_first = choice && (choice->begin < first_end || choice->end == first_end);
      if (can_be_first) choices.push_back(*choice);
    }
    std::ranges::stable_sort(choices, {}, &Choice::begin);
    for (const Choice& choice : choices) take(at, choice.action);
  }

  void take(std::size_t stage, const Action& action) {
    if (result_.nodes == most_nodes_) {
      result_.is_complete = false;
      return;
    }
    ++result_.nodes;
    throw_if_interrupted();
    const PassClock::Change change = clock_.run(stage, action);
    ++counts_[stage].of(action.kind);
    now_.ranks[stage].push_back(action);
    branch();
    now_.ranks[stage].pop_back();
    --counts_[stage].of(action.kind);
    clock_.undo(change);
  }

  /// Nothing can come next: all is over, or there is no room for what is missing.
  void finish() {
    for (const Counts& counts : counts_) {
      if (counts.weight < micro_batches_) return;
    }
    bound_ = clock_.seconds();
    result_.better = now_;
  }

  std::size_t micro_batches_;
  const CostModel& costs_;
  double most_bytes_;
  double bound_;
  std::size_t most_nodes_;
  PassClock clock_;
  std::vector<Counts> counts_;  // by stage
  std::vector<double>
      way_back_;  // by stage: from the end of its last B to the step's end, at least
  PipelineSchedule now_;
  std::unordered_map<std::string, std::vector<std::vector<double>>> seen_;
  BoundedSearch result_;
};

}  // namespace

BoundedSearch branch_and_bound(const Placement& placement, std::size_t micro_batches,
                               const CostModel& costs, double most_bytes, double bound,
                               std::size_t most_nodes) {
  ensure(placement.chunks() == 1, "branch and bound has one chunk per rank");
  constexpr std::size_t kMost = 127;  // that a key counts
  if (micro_batches > kMost || most_nodes == 0) return {};
  return Search(placement, micro_batches, costs, most_bytes, bound, most_nodes).run();
}

}  // namespace ultra::pipeline_parallel

#include "chapters/07_pipeline_parallel/simulate/simulator.hpp"

#include <algorithm>
#include <deque>
#include <limits>
#include <unordered_map>

#include "chapters/07_pipeline_parallel/schedule/live_activations.hpp"
#include "chapters/07_pipeline_parallel/schedule/message_table.hpp"
#include "common/base/errors.hpp"
#include "common/base/interrupt.hpp"

namespace ultra::pipeline_parallel {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// What is known of a message so far.
struct Times {
  double posted = kNever;
  double arrived = kNever;
};

/// A message that has been made.
struct Sent {
  Message message;
  double made = 0;
};

/// One direction between two ranks.
struct Link {
  std::deque<Sent> waiting;
  double free = 0;
};

/// All ranks follow their instructions; a rank stops where it does not know a time yet.
class Simulation {
 public:
  Simulation(const PipelineSchedule& schedule, const InstructionLists& lists,
             const CostModel& costs)
      : schedule_(schedule),
        lists_(lists),
        costs_(costs),
        times_(schedule, Times{}),
        ranks_(schedule.stages()) {
    for (std::size_t stage = 0; stage < ranks_.size(); ++stage) {
      step_.ranks.emplace_back().actions.reserve(schedule.ranks[stage].size());
      ranks_[stage].pairs = schedule.overlapped_on(stage);
      ready_.push_back(ranks_.size() - 1 - stage);
    }
  }

  SimulatedStep run() {
    while (!ready_.empty()) {
      throw_if_interrupted();
      const std::size_t stage = ready_.back();
      ready_.pop_back();
      while (ranks_[stage].next < lists_[stage].size() && follow(stage)) {
        ++ranks_[stage].next;
      }
    }
    for (std::size_t stage = 0; stage < ranks_.size(); ++stage) finish(stage);
    return std::move(step_);
  }

 private:
  struct Rank {
    std::size_t next = 0;            // of its instructions
    double free = 0;                 // when its last action ends
    std::vector<std::size_t> pairs;  // of actions that overlap
    std::size_t next_pair = 0;
    bool is_in_pair = false;  // the backward pass of a pair has run with the forward pass
  };

  /// False: a time that it needs is not known yet.
  bool follow(std::size_t stage) {
    const Instruction& now = lists_[stage][ranks_[stage].next];
    switch (now.kind) {
      case InstructionKind::kPost:
        times_[now.message].posted = ranks_[stage].free;
        pump(now.peer, stage);
        return true;
      case InstructionKind::kSend:
        link(stage, now.peer).waiting.push_back({now.message, ranks_[stage].free});
        pump(stage, now.peer);
        return true;
      case InstructionKind::kPass:
        return pass(stage, now);
    }
    throw InternalError("an instruction is of no kind");
  }

  bool pass(std::size_t stage, const Instruction& now) {
    Rank& rank = ranks_[stage];
    if (rank.is_in_pair) {
      rank.is_in_pair = false;
      return true;
    }
    const bool is_pair =
        rank.next_pair < rank.pairs.size() && rank.pairs[rank.next_pair] == now.index;
    const auto& list = schedule_.ranks[stage];
    double begin = std::max(rank.free, arrival(stage, now.action));
    if (is_pair) begin = std::max(begin, arrival(stage, list[now.index + 1]));
    if (begin == kNever) return false;
    double seconds = seconds_of(stage, now.action);
    if (is_pair) seconds = costs_.overlapped * (seconds + seconds_of(stage, list[now.index + 1]));
    rank.free = begin + seconds;
    step_.ranks[stage].busy += seconds;
    record(stage, now.action, begin);
    if (!is_pair) return true;
    record(stage, list[now.index + 1], begin);
    rank.is_in_pair = true;
    ++rank.next_pair;
    return true;
  }

  double arrival(std::size_t stage, const train::Action& action) {
    const auto input = input_of(schedule_, stage, action);
    return input ? times_[*input].arrived : 0;
  }

  [[nodiscard]] double seconds_of(std::size_t stage, const train::Action& action) const {
    return costs_.seconds(action.kind, schedule_.part_of(stage, action));
  }

  void record(std::size_t stage, const train::Action& action, double begin) {
    const double end = ranks_[stage].free;
    step_.ranks[stage].actions.push_back(
        {.action = action, .part = schedule_.part_of(stage, action), .begin = begin, .end = end});
    const auto output = output_of(schedule_, stage, action);
    if (!output || schedule_.placement.at(output->part).stage != stage) return;
    times_[*output].arrived = end;
  }

  Link& link(std::size_t from, std::size_t to) { return links_[from * ranks_.size() + to]; }

  /// Sends what has been made and asked for, in order.
  void pump(std::size_t from, std::size_t to) {
    Link& link = this->link(from, to);
    while (!link.waiting.empty()) {
      const auto& [message, made] = link.waiting.front();
      Times& times = times_[message];
      if (times.posted == kNever) return;
      const double begin = std::max({made, times.posted, link.free});
      link.free = begin + costs_.link.busy(costs_.message_bytes);
      times.arrived = link.free + costs_.link.latency;
      step_.messages.push_back({.message = message,
                                .from = from,
                                .to = to,
                                .begin = begin,
                                .left = link.free,
                                .end = times.arrived});
      link.waiting.pop_front();
      ready_.push_back(to);
    }
  }

  void finish(std::size_t stage) {
    ensure(ranks_[stage].next == lists_[stage].size(), "a valid schedule ends");
    const auto& list = schedule_.ranks[stage];
    std::vector<SavedBytes> chunks;
    for (std::size_t chunk = 0; chunk < schedule_.placement.chunks(); ++chunk) {
      const PartCost& part = costs_.parts[schedule_.part_of(stage, {.chunk = chunk})];
      chunks.push_back({part.saved_bytes, part.saved_bytes_after_b});
    }
    step_.ranks[stage].peak_bytes = peak_saved_bytes(list, chunks);
    step_.ranks[stage].peak_live = peak_live_activations(list);
  }

  const PipelineSchedule& schedule_;
  const InstructionLists& lists_;
  const CostModel& costs_;
  MessageTable<Times> times_;
  std::unordered_map<std::size_t, Link> links_;  // by from * stages + to
  std::vector<Rank> ranks_;                      // by stage
  std::vector<std::size_t> ready_;               // stages that may get further
  SimulatedStep step_;
};

}  // namespace

SimulatedStep simulate(const PipelineSchedule& schedule, const InstructionLists& lists,
                       const CostModel& costs) {
  ensure(costs.parts.size() == schedule.placement.parts(), "every part has a cost");
  return Simulation(schedule, lists, costs).run();
}

SimulatedStep simulate(const PipelineSchedule& schedule, const CostModel& costs) {
  return simulate(schedule, with_messages(schedule), costs);
}

}  // namespace ultra::pipeline_parallel

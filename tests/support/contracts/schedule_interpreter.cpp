#include "tests/support/contracts/schedule_interpreter.hpp"

#include <set>

#include "tests/support/toolbox.hpp"

namespace ultra::test {
namespace {

using comm::Block;
using comm::Buffer;
using comm::kNobody;
using comm::Lane;
using comm::OnReceive;
using comm::Round;
using comm::Schedule;

std::size_t index_of(int rank) { return static_cast<std::size_t>(rank); }

/// Elements of each buffer of one rank.
struct Sizes {
  std::size_t data;
  std::size_t input;
  std::size_t scratch;

  [[nodiscard]] std::size_t of(Buffer buffer) const {
    return buffer == Buffer::kData ? data : buffer == Buffer::kInput ? input : scratch;
  }
};

std::string where(int rank, const Schedule& schedule, std::size_t lane, std::size_t step) {
  const std::string in_lane = schedule.lanes.size() > 1 ? fmt::format("lane {}, ", lane) : "";
  const Lane& steps = schedule.lanes[lane];
  return fmt::format("rank {}, {}step {} of {} ({})", rank, in_lane, step + 1, steps.size(),
                     to_string(steps[step]));
}

bool overlap(const Block& a, const Block& b) {
  return a.buffer == b.buffer && a.range.begin < b.range.end && b.range.begin < a.range.end;
}

bool is_local(const Round& step, int rank) {
  return step.send_to == rank && step.receive_from == rank;
}

/// What is wrong with a step by itself.
std::pair<Fault, std::string> fault_of(const Round& step, int rank, int world_size,
                                       const Sizes& sizes) {
  const auto bad_half = [&](int peer, const Block& block) -> std::string {
    if (peer == kNobody) return {};
    if (peer < 0 || peer >= world_size) {
      return fmt::format("there is no rank {} among {}", peer, world_size);
    }
    if (block.range.begin > block.range.end) return "the block ends before it begins";
    if (block.range.end > sizes.of(block.buffer)) {
      return fmt::format("the block ends behind the {} elements of its buffer",
                         sizes.of(block.buffer));
    }
    return {};
  };
  for (const std::string& bad :
       {bad_half(step.send_to, step.send), bad_half(step.receive_from, step.receive)}) {
    if (!bad.empty()) return {Fault::kBadStep, bad};
  }
  if ((step.send_to == rank) != (step.receive_from == rank)) {
    return {Fault::kBadStep, "a rank sends to itself without receiving it in the same step"};
  }
  if (step.receive_from != kNobody && step.receive.buffer == Buffer::kInput) {
    return {Fault::kBadStep, "the input is read only"};
  }
  if (is_local(step, rank) && step.send.range.size() != step.receive.range.size()) {
    return {Fault::kSize, "the blocks of a copy differ in size"};
  }
  if (step.send_to != kNobody && step.receive_from != kNobody && overlap(step.send, step.receive)) {
    return {Fault::kRace, "the block being sent is overwritten by the one that arrives"};
  }
  return {Fault::kNone, ""};
}

/// Which lane writes each element of a rank's buffers.
class LaneMarks {
 public:
  explicit LaneMarks(const Sizes& sizes)
      : marks_{std::vector<int>(sizes.data, kNobody), std::vector<int>(sizes.input, kNobody),
               std::vector<int>(sizes.scratch, kNobody)} {}

  /// False when another lane writes some of it.
  bool only_lane(int lane, const Block& block) const {
    const std::vector<int>& marks = marks_[static_cast<std::size_t>(block.buffer)];
    for (std::size_t i = block.range.begin; i < block.range.end; ++i) {
      if (marks[i] != kNobody && marks[i] != lane) return false;
    }
    return true;
  }

  void mark(int lane, const Block& block) {
    std::vector<int>& marks = marks_[static_cast<std::size_t>(block.buffer)];
    for (std::size_t i = block.range.begin; i < block.range.end; ++i) marks[i] = lane;
  }

 private:
  std::vector<int> marks_[3];
};

/// Whether lanes of one rank touch elements that another of its lanes writes.
std::string lane_conflict(const Schedule& schedule, int rank, const Sizes& sizes) {
  if (schedule.lanes.size() < 2) return {};
  LaneMarks marks(sizes);
  for (const bool writes : {true, false}) {
    for (std::size_t l = 0; l < schedule.lanes.size(); ++l) {
      const int lane = static_cast<int>(l);
      for (std::size_t s = 0; s < schedule.lanes[l].size(); ++s) {
        const Round& step = schedule.lanes[l][s];
        if ((writes ? step.receive_from : step.send_to) == kNobody) continue;
        const Block& block = writes ? step.receive : step.send;
        if (!marks.only_lane(lane, block)) {
          return fmt::format("{}: touches elements that another lane writes at the same time",
                             where(rank, schedule, l, s));
        }
        if (writes) marks.mark(lane, block);
      }
    }
  }
  return {};
}

template <class T>
class Interpreter {
 public:
  Interpreter(std::span<const Schedule> schedules, std::vector<RankBuffers<T>> buffers)
      : schedules_(schedules), buffers_(std::move(buffers)) {
    for (const Schedule& schedule : schedules_) {
      scratch_.emplace_back(schedule.scratch_count, std::numeric_limits<T>::quiet_NaN());
      progress_.emplace_back(schedule.lanes.size());
    }
    result_.sent.resize(schedules_.size());
  }

  Interpretation<T> run() {
    if (check_steps()) {
      take_copies();
      while (result_.fault == Fault::kNone && !ended() && round()) take_copies();
    }
    for (RankBuffers<T>& buffers : buffers_) result_.data.push_back(std::move(buffers.data));
    return std::move(result_);
  }

 private:
  /// How far a lane has come.
  struct LaneProgress {
    std::size_t step = 0;
    bool sent = false;
    bool received = false;
  };
  struct Message {
    int from;
    int to;
    std::size_t lane;
    std::vector<T> values;
  };

  int world_size() const { return static_cast<int>(schedules_.size()); }
  const Schedule& schedule(int rank) const { return schedules_[index_of(rank)]; }
  LaneProgress& progress(int rank, std::size_t lane) { return progress_[index_of(rank)][lane]; }

  const Round* current(int rank, std::size_t lane) {
    const Schedule& own = schedule(rank);
    if (lane >= own.lanes.size() || progress(rank, lane).step == own.lanes[lane].size())
      return nullptr;
    return &own.lanes[lane][progress(rank, lane).step];
  }

  std::string where_now(int rank, std::size_t lane) {
    return where(rank, schedule(rank), lane, progress(rank, lane).step);
  }

  void fail(Fault fault, std::string message) {
    if (result_.fault != Fault::kNone) return;
    result_.fault = fault;
    result_.message = std::move(message);
  }

  bool check_steps() {
    for (int rank = 0; rank < world_size(); ++rank) {
      const Schedule& own = schedule(rank);
      const Sizes sizes{buffers_[index_of(rank)].data.size(), buffers_[index_of(rank)].input.size(),
                        own.scratch_count};
      for (std::size_t l = 0; l < own.lanes.size(); ++l) {
        for (std::size_t s = 0; s < own.lanes[l].size(); ++s) {
          const auto [fault, what] = fault_of(own.lanes[l][s], rank, world_size(), sizes);
          if (fault != Fault::kNone) fail(fault, where(rank, own, l, s) + ": " + what);
        }
      }
      if (result_.fault != Fault::kNone) return false;
      if (const std::string what = lane_conflict(own, rank, sizes); !what.empty()) {
        fail(Fault::kRace, what);
      }
    }
    return result_.fault == Fault::kNone;
  }

  bool ended() {
    bool all = true;
    for_lanes([&](int rank, std::size_t lane) { all = all && current(rank, lane) == nullptr; });
    return all;
  }

  template <class Visit>
  void for_lanes(const Visit& visit) {
    for (int rank = 0; rank < world_size(); ++rank) {
      for (std::size_t lane = 0; lane < schedule(rank).lanes.size(); ++lane) visit(rank, lane);
    }
  }

  std::span<T> elements(int rank, const Block& block) {
    RankBuffers<T>& own = buffers_[index_of(rank)];
    std::vector<T>& buffer = block.buffer == Buffer::kData    ? own.data
                             : block.buffer == Buffer::kInput ? own.input
                                                              : scratch_[index_of(rank)];
    return std::span(buffer).subspan(block.range.begin, block.range.size());
  }

  void arrive(int rank, const Round& step, const std::vector<T>& values) {
    const std::span<T> target = elements(rank, step.receive);
    for (std::size_t i = 0; i < values.size(); ++i) {
      target[i] = step.on_receive == OnReceive::kReduce ? target[i] + values[i] : values[i];
    }
  }

  std::vector<T> values_of(int rank, const Block& block) {
    const std::span<T> source = elements(rank, block);
    return {source.begin(), source.end()};
  }

  void take_copies() {
    for_lanes([&](int rank, std::size_t lane) {
      for (const Round* step = current(rank, lane); step != nullptr; step = current(rank, lane)) {
        const bool idle = step->send_to == kNobody && step->receive_from == kNobody;
        if (!idle && !is_local(*step, rank)) return;
        if (!idle) arrive(rank, *step, values_of(rank, step->send));
        ++progress(rank, lane).step;
      }
    });
  }

  bool wants_from(int rank, std::size_t lane, int from) {
    const Round* step = current(rank, lane);
    return step != nullptr && step->receive_from == from && !progress(rank, lane).received;
  }

  /// One message per half of a step at most; false when nothing could move.
  bool round() {
    std::vector<Message> messages;
    for_lanes([&](int rank, std::size_t lane) {
      const Round* step = current(rank, lane);
      if (step == nullptr || step->send_to == kNobody || progress(rank, lane).sent) return;
      const int to = step->send_to;
      if (!wants_from(to, lane, rank)) return;
      const Round& theirs = *current(to, lane);
      if (step->send.range.size() != theirs.receive.range.size()) {
        fail(Fault::kSize, fmt::format("{} sends {} elements, and {} expects {}",
                                       where_now(rank, lane), step->send.range.size(),
                                       where_now(to, lane), theirs.receive.range.size()));
      }
      messages.push_back({rank, to, lane, values_of(rank, step->send)});
    });
    if (messages.empty()) {
      fail(Fault::kDeadlock, describe_deadlock());
      return false;
    }
    if (result_.fault != Fault::kNone) return false;
    for (const Message& message : messages) {
      arrive(message.to, *current(message.to, message.lane), message.values);
      result_.sent[index_of(message.from)] += message.values.size();
    }
    for (const Message& message : messages) {
      progress(message.from, message.lane).sent = true;
      progress(message.to, message.lane).received = true;
    }
    for_lanes([&](int rank, std::size_t lane) { end_step(rank, lane); });
    ++result_.rounds;
    return true;
  }

  void end_step(int rank, std::size_t lane) {
    const Round* step = current(rank, lane);
    LaneProgress& own = progress(rank, lane);
    if (step == nullptr || (step->send_to != kNobody && !own.sent) ||
        (step->receive_from != kNobody && !own.received)) {
      return;
    }
    own = {.step = own.step + 1};
  }

  /// Follows who waits for whom from the first waiting rank on.
  std::string describe_deadlock() {
    std::optional<std::pair<int, std::size_t>> first;
    for_lanes([&](int rank, std::size_t lane) {
      if (!first && current(rank, lane) != nullptr) first = {rank, lane};
    });
    auto [rank, lane] = *first;
    std::string text = "deadlock: ";
    std::set<int> seen;
    while (seen.size() < kMostShown && seen.insert(rank).second) {
      const Round& step = *current(rank, lane);
      const bool sends = step.send_to != kNobody && !progress(rank, lane).sent;
      const int peer = sends ? step.send_to : step.receive_from;
      text += fmt::format("{} waits for rank {} to {}; ", where_now(rank, lane), peer,
                          sends ? "receive" : "send");
      if (current(peer, lane) == nullptr) {
        return text + fmt::format("rank {} has no step left that would", peer);
      }
      rank = peer;
    }
    return text + (seen.contains(rank) ? fmt::format("and so back to rank {}", rank) : "...");
  }

  static constexpr std::size_t kMostShown = 4;

  std::span<const Schedule> schedules_;
  std::vector<RankBuffers<T>> buffers_;
  std::vector<std::vector<T>> scratch_;
  std::vector<std::vector<LaneProgress>> progress_;
  Interpretation<T> result_;
};

}  // namespace

template <class T>
Interpretation<T> interpret(std::span<const Schedule> schedules,
                            std::vector<RankBuffers<T>> buffers) {
  return Interpreter<T>(schedules, std::move(buffers)).run();
}

template Interpretation<float> interpret(std::span<const Schedule>,
                                         std::vector<RankBuffers<float>>);
template Interpretation<double> interpret(std::span<const Schedule>,
                                          std::vector<RankBuffers<double>>);

}  // namespace ultra::test

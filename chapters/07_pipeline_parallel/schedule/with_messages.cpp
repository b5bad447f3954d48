#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "chapters/07_pipeline_parallel/schedule/message_table.hpp"
#include "chapters/07_pipeline_parallel/schedule/messages.hpp"
#include "common/base/errors.hpp"

namespace ultra::pipeline_parallel {
namespace {

/// Ranks that follow their lists as far as they get, when each send holds up its rank until the other
/// one has posted its receive.
class Rendezvous {
 public:
  /// @param lists  outlive this.
  Rendezvous(const PipelineSchedule& schedule, const InstructionLists& lists);

  /// @brief Lets all ranks go on until each has ended or waits.
  void run();
  /// @brief What every rank waits for, in words; nothing: all have ended.
  [[nodiscard]] std::optional<std::string> waiting() const;
  /// @brief Posts, where its receiver stands, the message of the first rank that waits to send one.
  /// @return whether there is such a rank.
  bool post_early();
  /// @brief What each rank has done, with receives where they have been posted.
  [[nodiscard]] InstructionLists take_done() { return std::move(done_); }

 private:
  /// Where a message stands.
  enum class State : std::uint8_t { kNowhere, kPosted, kThere };

  [[nodiscard]] bool has_ended(std::size_t stage) const;
  [[nodiscard]] const Instruction& instruction(std::size_t stage) const;
  bool follow(std::size_t stage);
  bool pass(std::size_t stage, const Instruction& now);
  void post(std::size_t stage, const Instruction& now);
  [[nodiscard]] std::string describe(std::size_t stage) const;

  const PipelineSchedule& schedule_;
  const InstructionLists& lists_;
  MessageTable<State> messages_;
  std::vector<std::size_t> next_;   // by stage
  std::vector<std::size_t> ready_;  // stages that may get further
  InstructionLists done_;
};

Rendezvous::Rendezvous(const PipelineSchedule& schedule, const InstructionLists& lists)
    : schedule_(schedule),
      lists_(lists),
      messages_(schedule, State::kNowhere),
      next_(lists.size(), 0),
      done_(lists.size()) {
  for (std::size_t stage = 0; stage < next_.size(); ++stage) {
    ready_.push_back(stage);
    done_[stage].reserve(lists[stage].size());
  }
}

bool Rendezvous::has_ended(std::size_t stage) const { return next_[stage] == lists_[stage].size(); }

const Instruction& Rendezvous::instruction(std::size_t stage) const {
  return lists_[stage][next_[stage]];
}

void Rendezvous::run() {
  while (!ready_.empty()) {
    const std::size_t stage = ready_.back();
    ready_.pop_back();
    while (!has_ended(stage) && follow(stage)) ++next_[stage];
  }
}

/// False: it has to wait.
bool Rendezvous::follow(std::size_t stage) {
  const Instruction& now = instruction(stage);
  if (now.kind == InstructionKind::kPost) {
    post(stage, now);
    return true;
  }
  if (now.kind == InstructionKind::kPass) {
    if (!pass(stage, now)) return false;
  } else {
    if (messages_[now.message] != State::kPosted) return false;
    messages_[now.message] = State::kThere;
    ready_.push_back(now.peer);
  }
  done_[stage].push_back(now);
  return true;
}

bool Rendezvous::pass(std::size_t stage, const Instruction& now) {
  const auto input = input_of(schedule_, stage, now.action);
  if (input && messages_[*input] != State::kThere) return false;
  const auto output = output_of(schedule_, stage, now.action);
  const bool stays = output && schedule_.placement.at(output->part).stage == stage;
  if (stays) messages_[*output] = State::kThere;
  return true;
}

void Rendezvous::post(std::size_t stage, const Instruction& now) {
  if (messages_[now.message] != State::kNowhere) return;
  messages_[now.message] = State::kPosted;
  done_[stage].push_back(now);
  ready_.push_back(now.peer);
}

bool Rendezvous::post_early() {
  for (std::size_t stage = 0; stage < next_.size(); ++stage) {
    if (has_ended(stage) || instruction(stage).kind != InstructionKind::kSend) continue;
    const std::size_t peer = instruction(stage).peer;
    for (std::size_t i = next_[peer]; i < lists_[peer].size(); ++i) {
      const Instruction& later = lists_[peer][i];
      if (later.kind != InstructionKind::kPost || later.message != instruction(stage).message) {
        continue;
      }
      post(peer, later);
      return true;
    }
  }
  return false;
}

std::optional<std::string> Rendezvous::waiting() const {
  std::vector<std::string> waiting;
  for (std::size_t stage = 0; stage < next_.size(); ++stage) {
    if (!has_ended(stage)) waiting.push_back(describe(stage));
  }
  if (waiting.empty()) return {};
  return fmt::format("{}", fmt::join(waiting, "; "));
}

std::string Rendezvous::describe(std::size_t stage) const {
  const Instruction& now = instruction(stage);
  const std::string action = now.action.str();
  if (now.kind == InstructionKind::kSend) {
    return fmt::format("stage {} has done {} and waits until stage {} posts a receive for {}",
                       stage, action, now.peer, now.message.str());
  }
  const Message input = *input_of(schedule_, stage, now.action);
  const std::size_t from = schedule_.placement.at(input.from_part()).stage;
  if (from == stage) {
    return fmt::format("stage {} waits in {} for {}, which it makes itself, but later", stage,
                       action, input.str());
  }
  return fmt::format("stage {} waits in {} for {} from stage {}", stage, action, input.str(), from);
}

/// The other rank of a message; nothing: it stays on its rank.
std::optional<std::size_t> other_rank(const PipelineSchedule& schedule, std::size_t stage,
                                      std::size_t part) {
  const std::size_t other = schedule.placement.at(part).stage;
  if (other == stage) return {};
  return other;
}

/// Writes the instructions of one rank: one receive ahead, sends behind their pass.
class RankWriter {
 public:
  RankWriter(const PipelineSchedule& schedule, std::size_t stage)
      : schedule_(schedule), stage_(stage), list_(schedule.ranks[stage]) {}

  std::vector<Instruction> write() {
    instructions_.reserve(3 * list_.size());
    for (std::size_t i = 0; i < list_.size(); ++i) {
      // What this action needs, and what the next one does that needs a message.
      while (posted_ < list_.size() && (posted_ <= i || ahead_ <= i)) {
        if (post(posted_)) ahead_ = posted_;
        ++posted_;
      }
      instructions_.push_back({.kind = InstructionKind::kPass, .action = list_[i], .index = i});
      send(i);
    }
    return std::move(instructions_);
  }

 private:
  /// False: the action needs no message.
  bool post(std::size_t index) {
    const auto message = input_of(schedule_, stage_, list_[index]);
    return message && add(InstructionKind::kPost, index, *message, message->from_part());
  }

  void send(std::size_t index) {
    const auto message = output_of(schedule_, stage_, list_[index]);
    if (message) add(InstructionKind::kSend, index, *message, message->part);
  }

  bool add(InstructionKind kind, std::size_t index, const Message& message, std::size_t part) {
    const auto peer = other_rank(schedule_, stage_, part);
    if (peer) instructions_.push_back({kind, list_[index], index, message, *peer});
    return peer.has_value();
  }

  const PipelineSchedule& schedule_;
  std::size_t stage_;
  const train::StepSchedule& list_;
  std::size_t posted_ = 0;  // the first action whose message is not posted
  std::size_t ahead_ = 0;   // the last one that it was posted for
  std::vector<Instruction> instructions_;
};

}  // namespace

InstructionLists with_messages(const PipelineSchedule& schedule) {
  InstructionLists one_ahead;
  for (std::size_t stage = 0; stage < schedule.stages(); ++stage) {
    one_ahead.push_back(RankWriter(schedule, stage).write());
  }
  Rendezvous ranks(schedule, one_ahead);
  do {
    ranks.run();
  } while (ranks.post_early());
  if (const auto waiting = ranks.waiting()) {
    throw ConfigError(fmt::format("schedule {} never ends: {}.", schedule.name, *waiting));
  }
  return ranks.take_done();
}

std::optional<std::string> find_deadlock(const PipelineSchedule& schedule,
                                         const InstructionLists& lists) {
  Rendezvous ranks(schedule, lists);
  ranks.run();
  return ranks.waiting();
}

}  // namespace ultra::pipeline_parallel

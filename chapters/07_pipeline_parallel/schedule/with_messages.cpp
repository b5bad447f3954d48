#include <fmt/format.h>

#include "chapters/07_pipeline_parallel/schedule/messages.hpp"
#include "chapters/07_pipeline_parallel/schedule/rendezvous.hpp"
#include "common/base/errors.hpp"

namespace ultra::pipeline_parallel {
namespace {

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

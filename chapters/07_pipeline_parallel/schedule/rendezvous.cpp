#include "chapters/07_pipeline_parallel/schedule/rendezvous.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ultra::pipeline_parallel {

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

}  // namespace ultra::pipeline_parallel

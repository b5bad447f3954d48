#include "chapters/07_pipeline_parallel/schedule/messages.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ultra::pipeline_parallel {
namespace {

using train::Action;
using train::ActionKind;

bool passes_backward(ActionKind kind) {
  return kind == ActionKind::kBackward || kind == ActionKind::kBackwardInput;
}

}  // namespace

std::string Message::str() const {
  return fmt::format("the {} of micro-batch {}",
                     content == Content::kActivation ? "activation" : "gradient", micro_batch);
}

std::optional<Message> input_of(const PipelineSchedule& schedule, std::size_t stage,
                                const Action& action) {
  const std::size_t part = schedule.part_of(stage, action);
  if (action.kind == ActionKind::kForward && part > 0) {
    return Message{Content::kActivation, action.micro_batch, part};
  }
  if (passes_backward(action.kind) && part + 1 < schedule.placement.parts()) {
    return Message{Content::kGradient, action.micro_batch, part};
  }
  return {};
}

std::optional<Message> output_of(const PipelineSchedule& schedule, std::size_t stage,
                                 const Action& action) {
  const std::size_t part = schedule.part_of(stage, action);
  if (action.kind == ActionKind::kForward && part + 1 < schedule.placement.parts()) {
    return Message{Content::kActivation, action.micro_batch, part + 1};
  }
  if (passes_backward(action.kind) && part > 0) {
    return Message{Content::kGradient, action.micro_batch, part - 1};
  }
  return {};
}

std::size_t peak_posted(const std::vector<Instruction>& list) {
  std::size_t posted = 0;
  std::size_t peak = 0;
  std::vector<std::size_t> ahead;  // indices of the actions that posted messages are for
  for (const Instruction& now : list) {
    if (now.kind == InstructionKind::kPost) {
      ahead.push_back(now.index);
      peak = std::max(peak, ++posted);
    }
    if (now.kind == InstructionKind::kPass && std::erase(ahead, now.index) > 0) --posted;
  }
  return peak;
}

}  // namespace ultra::pipeline_parallel

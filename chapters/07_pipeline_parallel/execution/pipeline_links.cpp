#include "chapters/07_pipeline_parallel/execution/pipeline_links.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"

namespace ultra::pipeline_parallel {
namespace {

using train::Action;
using train::ActionKind;

const char* in_words(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
      return "forward pass";
    case ActionKind::kBackward:
    case ActionKind::kBackwardInput:
      return "backward pass";
    case ActionKind::kBackwardWeight:
      return "weight gradients";
    case ActionKind::kUpdate:
      return "update";
  }
  return "";
}

/// What is left of a schedule when nobody learns.
PipelineSchedule forwards_of(PipelineSchedule schedule) {
  for (train::StepSchedule& rank : schedule.ranks) rank = train::forwards_of(rank);
  schedule.overlapped.clear();
  return schedule;
}

}  // namespace

Tensor BorderTensors::room_for(std::size_t micro_batch) const {
  return Tensor::empty(device, {sequences[micro_batch], tokens, hidden}, dtype,
                       MemoryCategory::kActivations);
}

PipelineLinks::PipelineLinks(Communicator pp, PipelineSchedule schedule, BorderTensors tensors,
                             std::shared_ptr<ActionLog> log)
    : pp_(std::move(pp)),
      schedule_(std::move(schedule)),
      step_(with_messages(schedule_)[stage()]),
      tensors_(std::move(tensors)),
      log_(std::move(log)) {}

bool PipelineLinks::is_here(std::size_t part) const {
  return schedule_.placement.at(part).stage == stage();
}

MessageName PipelineLinks::name_of(const Message& message) const {
  const std::size_t number = message.micro_batch * schedule_.placement.parts() + message.part;
  return {.channel = static_cast<int>(message.content),
          .number = checked_cast<std::uint32_t>(number)};
}

void PipelineLinks::passes_begin(std::span<const Action> schedule) {
  const bool trains = std::ranges::any_of(schedule, &Action::makes_gradients);
  if (!trains && forwards_.empty()) forwards_ = with_messages(forwards_of(schedule_))[stage()];
  instructions_ = trains ? &step_ : &forwards_;
  next_ = 0;
}

// [region follow]
void PipelineLinks::action_begins(const Action& action) {
  drop_sent();
  while (instructions_->at(next_).kind != InstructionKind::kPass) {
    const Instruction& instruction = (*instructions_)[next_++];
    if (instruction.kind == InstructionKind::kPost) post(instruction);
  }
  ensure((*instructions_)[next_++].action == action, "passes come in the order of the schedule");
}

void PipelineLinks::post(const Instruction& instruction) {
  const Message& message = instruction.message;
  const MessageName name = name_of(message);
  const Tensor room = tensors_.room_for(message.micro_batch);
  const Communicator pp = pp_.labeled(message.str());
  posted_[key_of(name)] = {.tensor = room,
                           .work = pp.recv(room, checked_cast<int>(instruction.peer), name)};
}

Tensor PipelineLinks::take(const Action& action) {
  const Message message = *input_of(schedule_, stage(), action);
  const Key key = key_of(name_of(message));
  if (is_here(message.from_part())) return std::move(here_.extract(key).mapped());
  Arrival arrival = std::move(posted_.extract(key).mapped());
  arrival.work.wait();
  log_->input_is_here();
  return arrival.tensor;
}

void PipelineLinks::give(const Action& action, const Tensor& tensor) {
  log_->output_is_made();
  const Message message = *output_of(schedule_, stage(), action);
  const MessageName name = name_of(message);
  if (is_here(message.part)) {
    here_[key_of(name)] = tensor;
    return;
  }
  const auto to = checked_cast<int>(schedule_.placement.at(message.part).stage);
  sends_.push_back(pp_.labeled(message.str()).send(tensor, to, name));
}
// [/region]

Tensor PipelineLinks::receive(const Action& forward) { return take(forward); }
void PipelineLinks::send(const Action& forward, const Tensor& output) { give(forward, output); }
Tensor PipelineLinks::receive_gradient(const Action& backward) { return take(backward); }
void PipelineLinks::send_gradient(const Action& backward, const Tensor& gradient) {
  give(backward, gradient);
}

/// A handle keeps what it sends in memory.
void PipelineLinks::drop_sent() {
  sends_.remove_if([](Work& work) { return work.done(); });
}

void PipelineLinks::finish() {
  for (Work& work : sends_) work.wait();
  sends_.clear();
}

std::string PipelineLinks::place(const Action& action) const {
  return fmt::format("stage {} of {}, {}: {} of micro-batch {}", pp_.rank(), pp_.size(),
                     action.str(), in_words(action.kind), action.micro_batch);
}

BorderTensors border_tensors(const train::Plan& plan, const Device& device,
                             const train::TrainOptions& options, std::size_t parts_of_tokens) {
  BorderTensors tensors{.device = device, .dtype = options.formats().compute, .sequences = {}};
  for (const train::MicroBatch& micro_batch : plan.micro_batches) {
    tensors.sequences.push_back(micro_batch.sequences.size());
  }
  const std::size_t positions = plan.tokens.positions.size();
  tensors.tokens = (positions > 0 ? positions : options.model.max_seq_len) / parts_of_tokens;
  tensors.hidden = options.model.hidden_size;
  return tensors;
}

}  // namespace ultra::pipeline_parallel

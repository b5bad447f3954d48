#include "chapters/07_pipeline_parallel/lists/list_builder.hpp"

#include "common/base/errors.hpp"

namespace ultra::pipeline_parallel {

using train::ActionKind;

ListBuilder::ListBuilder(std::size_t chunks, std::size_t micro_batches)
    : micro_batches_(micro_batches), forwards_(chunks, 0), backwards_(chunks, 0) {}

bool ListBuilder::append(ActionKind kind, std::size_t micro_batch, std::size_t chunk) {
  if (micro_batch >= micro_batches_) return false;
  list_.push_back({.kind = kind, .micro_batch = micro_batch, .chunk = chunk});
  return true;
}

void ListBuilder::forward(std::size_t chunk) {
  append(ActionKind::kForward, forwards_[chunk]++, chunk);
}

void ListBuilder::backward(std::size_t chunk) {
  append(ActionKind::kBackward, backwards_[chunk]++, chunk);
}

void ListBuilder::backward_input(std::size_t chunk) {
  const std::size_t micro_batch = backwards_[chunk]++;
  append(ActionKind::kBackwardInput, micro_batch, chunk);
  waiting_.push({.kind = ActionKind::kBackwardWeight, .micro_batch = micro_batch, .chunk = chunk});
}

void ListBuilder::backward_weight() {
  ensure(!waiting_.empty(), "a W comes after its B");
  append(ActionKind::kBackwardWeight, waiting_.front().micro_batch, waiting_.front().chunk);
  waiting_.pop();
}

void ListBuilder::overlapped(std::size_t forward_chunk, std::size_t backward_chunk) {
  const std::size_t index = list_.size();
  const bool has_forward = append(ActionKind::kForward, forwards_[forward_chunk]++, forward_chunk);
  const bool has_backward =
      append(ActionKind::kBackward, backwards_[backward_chunk]++, backward_chunk);
  if (has_forward && has_backward) pairs_.push_back(index);
}

}  // namespace ultra::pipeline_parallel

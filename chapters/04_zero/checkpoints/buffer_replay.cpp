#include "chapters/04_zero/checkpoints/buffer_replay.hpp"

#include <algorithm>
#include <utility>

namespace ultra::zero {

BufferReplay::BufferReplay(std::vector<GroupBuffers> groups, const ZeroSettings& settings)
    : groups_(std::move(groups)),
      overlap_(settings.overlap),
      fetch_(groups_.size(), fetch_ahead(settings), settings.reshard,
             {.start_gather = [this](std::size_t unit) { fetch(unit); },
              .wait = [](std::size_t) {},
              .release = [](std::size_t) {}}),
      prefetch_(groups_.size(), settings.prefetch, settings.reshard,
                {.start_gather = [this](std::size_t unit) { start_gather(unit); },
                 .wait = [this](std::size_t unit) { wait(unit); },
                 .release = [this](std::size_t unit) { release(unit); }}),
      fetched_(groups_.size(), false),
      there_(groups_.size(), false) {}

void BufferReplay::run_step(std::size_t micro_batches, std::size_t recompute_every) {
  const std::size_t head = groups_.size() - 1;
  for (std::size_t m = 0; m < micro_batches; ++m) {
    run_forward({0, head + 1});
    run_backward({head, head + 1});
    for (std::size_t end = head; end > 1;) {
      const std::size_t begin = 1 + (end - 2) / recompute_every * recompute_every;
      if (recompute_every > 1) run_forward({begin, end});
      run_backward({begin, end});
      end = begin;
    }
    run_backward({0, 1});
  }
  while (!under_way_.empty()) take_in_oldest();
}

void BufferReplay::make_gradients(std::size_t group) {
  while (under_way_.size() > 1) take_in_oldest();
  const GroupBuffers& bytes = groups_[group];
  // While gradients are quantised, they stand beside their messages.
  note(bytes.reduced > 0 ? bytes.whole + bytes.reduced : bytes.whole);
  under_way_.push_back(group);
  if (overlap_ == Overlap::kOff) take_in_oldest();
}

void BufferReplay::run_forward(Range units) {
  for (std::size_t unit = units.begin; unit < units.end; ++unit) {
    fetch_.before_forward(unit);
    prefetch_.before_forward(unit);
    note();
    prefetch_.after_forward(unit);
    fetch_.after_forward(unit);
  }
}

void BufferReplay::run_backward(Range units) {
  for (std::size_t unit = units.end; unit-- > units.begin;) {
    fetch_.before_backward(unit);
    prefetch_.before_backward(unit);
    note();
    make_gradients(group_of(unit));
    prefetch_.after_backward(unit);
    fetch_.after_backward(unit);
  }
}

void BufferReplay::fetch(std::size_t unit) {
  fetched_[unit] = true;
  shards_ += groups_[group_of(unit)].shard;
  peak_of_shards_ = std::max(peak_of_shards_, shards_);
}

void BufferReplay::start_gather(std::size_t unit) {
  const GroupBuffers& bytes = groups_[group_of(unit)];
  weights_ += bytes.gathered > 0 ? bytes.gathered : bytes.whole;
}

void BufferReplay::wait(std::size_t unit) {
  if (fetched_[unit]) {  // gathered: the shard is not needed any more
    fetched_[unit] = false;
    shards_ -= groups_[group_of(unit)].shard;
  }
  if (there_[unit]) return;
  there_[unit] = true;
  const GroupBuffers& bytes = groups_[group_of(unit)];
  if (bytes.gathered == 0) return;
  weights_ += bytes.whole;
  note();  // a unit stands beside the messages that it is made of
  weights_ -= bytes.gathered;
}

void BufferReplay::release(std::size_t unit) {
  there_[unit] = false;
  weights_ -= groups_[group_of(unit)].whole;
}

void BufferReplay::take_in_oldest() {
  const GroupBuffers& bytes = groups_[under_way_.front()];
  note(bytes.sums);
  under_way_.erase(under_way_.begin());
  note(bytes.second_step);
}

void BufferReplay::note(std::size_t more) {
  std::size_t bytes = weights_ + more;
  for (const std::size_t group : under_way_) {
    const GroupBuffers& buffers = groups_[group];
    bytes += buffers.reduced > 0 ? buffers.reduced : buffers.whole;
  }
  peak_ = std::max(peak_, bytes);
}

}  // namespace ultra::zero

#include "chapters/04_zero/estimate/buffer_replay.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "chapters/01_memory/gradient_accumulation.hpp"

namespace ultra::zero {
namespace {

constexpr std::size_t kTable = 0;  // the unit of the token table

std::vector<UnitUse> uses_of_step(std::size_t units, std::size_t micro_batches,
                                  std::size_t recompute_every, memory::Embeddings embeddings) {
  ChunkUnits chunk = ChunkUnits::whole(units);
  if (embeddings == memory::Embeddings::kTied) chunk.tied = kTable;
  return unit_uses(memory::accumulation_schedule(micro_batches), std::span(&chunk, 1),
                   recompute_every);
}

}  // namespace

BufferReplay::BufferReplay(std::vector<GroupBuffers> groups, std::size_t micro_batches,
                           const ZeroSettings& settings, memory::Embeddings embeddings)
    : groups_(std::move(groups)),
      overlap_(settings.overlap),
      embeddings_(embeddings),
      uses_(uses_of_step(groups_.size(), micro_batches, settings.recompute_every, embeddings)),
      fetch_(fetch_ahead(settings),
             {.start_gather = [this](const UnitUse& use) { fetch(use.unit); },
              .wait = [](std::size_t) {},
              .release = [](std::size_t) {}}),
      prefetch_(settings.prefetch,
                {.start_gather = [this](const UnitUse& use) { start_gather(use.unit); },
                 .wait = [this](std::size_t unit) { wait(unit); },
                 .release = [this](std::size_t unit) { release(unit); }}),
      fetched_(groups_.size(), false),
      there_(groups_.size(), false) {
  fetch_.follow(uses_, settings.reshard);
  prefetch_.follow(uses_, settings.reshard);
}

void BufferReplay::run_step() {
  for (std::size_t i = 0; i < uses_.size(); ++i) {
    const UnitUse& use = uses_[i];
    fetch_.gather(use.unit);
    prefetch_.gather(use.unit);
    note();
    if (completes_gradients(i)) make_gradients(group_of(use.unit));
    prefetch_.free(use.unit);
    fetch_.free(use.unit);
  }
  while (!under_way_.empty()) drain_oldest();
}

bool BufferReplay::completes_gradients(std::size_t use) const {
  if (uses_[use].kind != UseKind::kBackward) return false;
  if (embeddings_ == memory::Embeddings::kUntied || uses_[use].unit != kTable) return true;
  // The table's second backward pass ends the micro-batch; its first one follows the head's.
  return use + 1 == uses_.size() || uses_[use + 1].kind == UseKind::kForward;
}

void BufferReplay::make_gradients(std::size_t group) {
  while (under_way_.size() > 1) drain_oldest();
  const GroupBuffers& bytes = groups_[group];
  // While gradients are quantised, they stand beside their messages.
  note(bytes.reduced > 0 ? bytes.whole + bytes.reduced : bytes.whole);
  under_way_.push_back(group);
  if (overlap_ == Overlap::kOff) drain_oldest();
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

void BufferReplay::drain_oldest() {
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

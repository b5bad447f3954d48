#include "kernels/simt/emulator/async/clock.hpp"

#include <algorithm>

namespace ultra::simt::emulator {

void Clock::learn(Event event) {
  if (event.slot >= counts_.size()) {
    counts_.resize(event.slot + 1);
  }
  counts_[event.slot] = std::max(counts_[event.slot], event.count);
}

void Clock::join(const Clock& other) {
  counts_.resize(std::max(counts_.size(), other.counts_.size()));
  for (std::size_t slot = 0; slot < other.counts_.size(); ++slot) {
    counts_[slot] = std::max(counts_[slot], other.counts_[slot]);
  }
}

void Order::start(std::size_t warps) {
  clocks_.assign(warps, Clock());
  for (std::size_t warp = 0; warp < warps; ++warp) {
    clocks_[warp].learn({.slot = static_cast<Slot>(warp), .count = 1});
  }
  next_slot_ = static_cast<Slot>(2 * warps);
}

Event Order::now(std::size_t warp) const {
  const auto slot = static_cast<Slot>(warp);
  return {.slot = slot, .count = clocks_[warp].at(slot)};
}

void Order::tell(std::size_t warp, Clock& barrier) {
  barrier.join(clocks_[warp]);
  const Event before = now(warp);
  clocks_[warp].learn({.slot = before.slot, .count = before.count + 1});
}

void Order::show(std::size_t warp) {
  Clock& clock = clocks_[warp];
  for (std::size_t writer = 0; writer < clocks_.size(); ++writer) {
    clock.learn({.slot = shown_slot(writer), .count = clock.at(static_cast<Slot>(writer))});
  }
  // What the warp writes next is later than what it has shown.
  const Event before = now(warp);
  clock.learn({.slot = before.slot, .count = before.count + 1});
}

bool Order::is_shown(const Clock& clock, Event write) const {
  return write.slot >= clocks_.size() || clock.at(shown_slot(write.slot)) >= write.count;
}

Slot Order::shown_slot(std::size_t warp) const { return static_cast<Slot>(clocks_.size() + warp); }

}  // namespace ultra::simt::emulator

#pragma once
/// @file
/// Who knows of what: the order that barriers make between warps and the engines that work behind
/// their backs. Source: Mattern 1989, "Virtual time and global states of distributed systems"; for
/// races, Flanagan & Freund 2009, "FastTrack", section 3.
///
/// Whoever acts has a slot: each warp, each barrier (for the boxes that TMA brings to it), each
/// warp's products, each thread's boxes on their way out. An event is the n-th one of its slot.
/// Those who wait at a barrier learn what those who arrived knew. The lanes of a warp count as one.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ultra::simt::emulator {

/// @brief The number of one that acts.
using Slot = std::uint32_t;

/// @brief Something that happened.
struct Event {
  /// @brief Who did it.
  Slot slot = 0;
  /// @brief Its number among those of its slot, from 1.
  std::uint32_t count = 0;
};

/// @brief How far somebody knows the events of each slot.
class Clock {
 public:
  /// @brief The latest known event of a slot; 0 for none.
  [[nodiscard]] std::uint32_t at(Slot slot) const {
    return slot < counts_.size() ? counts_[slot] : 0;
  }
  /// @brief Whether an event is known.
  [[nodiscard]] bool knows(Event event) const { return at(event.slot) >= event.count; }
  /// @brief Learns of an event and those before it.
  void learn(Event event);
  /// @brief Learns all that another clock knows.
  void join(const Clock& other);

 private:
  std::vector<std::uint32_t> counts_;
};

/// @brief The clocks of the warps that run together.
class Order {
 public:
  /// @brief Forgets everything; so many warps will run.
  void start(std::size_t warps);
  /// @brief A slot for one more that acts.
  [[nodiscard]] Slot new_slot() { return next_slot_++; }
  /// @brief What a warp knows.
  [[nodiscard]] const Clock& of(std::size_t warp) const { return clocks_[warp]; }
  /// @brief The event that stands for what a warp does now.
  [[nodiscard]] Event now(std::size_t warp) const;
  /// @brief Tells a barrier what a warp knows; what the warp does next is later.
  void tell(std::size_t warp, Clock& barrier);
  /// @brief A warp learns.
  void learn(std::size_t warp, const Clock& other) { clocks_[warp].join(other); }
  /// @brief A warp learns.
  void learn(std::size_t warp, Event event) { clocks_[warp].learn(event); }
  /// @brief Shows the engines all writes of threads that a warp knows of (fence.proxy.async).
  void show(std::size_t warp);
  /// @brief Whether a write of a warp has been shown to the engines, as far as `clock` knows.
  [[nodiscard]] bool is_shown(const Clock& clock, Event write) const;

 private:
  [[nodiscard]] Slot shown_slot(std::size_t warp) const;

  std::vector<Clock> clocks_;
  Slot next_slot_ = 0;
};

}  // namespace ultra::simt::emulator

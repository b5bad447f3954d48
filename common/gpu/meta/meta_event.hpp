#pragma once
/// @file
/// What an event is where nothing runs: its number on the tape.

#include <memory>

#include "common/gpu/meta/tape.hpp"
#include "common/gpu/streams.hpp"

namespace ultra::gpu {

/// @brief A moment that stands on a tape.
struct MetaEvent final : EventState {
  /// @brief The event of this number, which is not 0.
  explicit MetaEvent(EventId number) : id(number) {}
  EventId id;  ///< its number on the tape
};

/// @brief The event of a number on the tape; a moment before everything for 0.
[[nodiscard]] inline Event event_of(EventId id) {
  return id == 0 ? Event() : Event(std::make_shared<MetaEvent>(id));
}

/// @brief An event's number on the tape: 0 for a moment before everything.
/// @pre the event is one of event_of.
[[nodiscard]] inline EventId id_of(const Event& event) {
  const EventState* const state = event.state();
  return state == nullptr ? 0 : static_cast<const MetaEvent&>(*state).id;
}

}  // namespace ultra::gpu

#pragma once
/// @file
/// What an event is where nothing runs: its number on the tape.

#include <memory>
#include <utility>

#include "common/gpu/meta/tape.hpp"
#include "common/gpu/order_checker.hpp"
#include "common/gpu/streams.hpp"

namespace ultra::gpu {

/// @brief A moment that stands on a tape.
struct MetaEvent final : EventState {
  /// @brief The event of this number, 0 for one that was recorded while the tape did not run.
  explicit MetaEvent(EventId number, VectorClock recorded = {})
      : id(number), moment(std::move(recorded)) {}
  EventId id;          ///< its number on the tape
  VectorClock moment;  ///< what the order checker knew of its stream; empty where nobody checks
};

/// @brief The event of a number on the tape; a moment before everything for 0, where nobody checks.
[[nodiscard]] inline Event event_of(EventId id, VectorClock moment = {}) {
  if (id == 0 && moment.empty()) return {};
  return Event(std::make_shared<MetaEvent>(id, std::move(moment)));
}

/// @brief An event's number on the tape: 0 for a moment before everything.
/// @pre the event is one of event_of.
[[nodiscard]] inline EventId id_of(const Event& event) {
  const EventState* const state = event.state();
  return state == nullptr ? 0 : static_cast<const MetaEvent&>(*state).id;
}

}  // namespace ultra::gpu

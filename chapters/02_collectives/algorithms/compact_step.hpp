#pragma once
/// @file
/// CompactStep: of a step, what the link simulator needs to know, in 16 bytes.

#include <cstddef>
#include <cstdint>

#include "common/comm/collectives/schedule.hpp"

namespace ultra::collectives {

/// @brief A step without its places in memory: who sends how much to whom.
///
/// A ring all-reduce on 4096 ranks has 33.5 million steps, which are 2.7 GB as comm::Round.
struct CompactStep {
  /// Stands for comm::kNobody.
  static constexpr std::uint64_t kNoPeer = (std::uint64_t{1} << 20) - 1;
  /// Elements above this do not fit.
  static constexpr std::uint64_t kMaxCount = (std::uint64_t{1} << 43) - 1;

  std::uint64_t send_to : 20;        ///< rank or kNoPeer
  std::uint64_t send_count : 43;     ///< elements
  std::uint64_t reduces : 1;         ///< what is received is combined, not stored
  std::uint64_t receive_from : 20;   ///< rank or kNoPeer
  std::uint64_t receive_count : 43;  ///< elements

  /// @brief True when the step sends.
  [[nodiscard]] bool sends() const { return send_to != kNoPeer; }
  /// @brief True when the step receives.
  [[nodiscard]] bool receives() const { return receive_from != kNoPeer; }
  /// @brief True when it stays within its rank: a copy, or nothing at all.
  /// @param rank  whose step it is.
  [[nodiscard]] bool is_local(int rank) const {
    return send_to == static_cast<std::uint64_t>(rank) || (!sends() && !receives());
  }
};
static_assert(sizeof(CompactStep) == 16);

/// @brief Where a step stands.
struct StepPlace {
  int rank = 0;           ///< whose step it is
  int ranks = 0;          ///< there are, for its peers
  std::size_t lane = 0;   ///< of the rank's schedule
  std::size_t index = 0;  ///< in the lane
};

/// @brief The step, compact.
/// @throws ScheduleError for a peer out of range, or a message to the rank itself that it does not
/// receive in the same step.
[[nodiscard]] CompactStep compact(const comm::Round& step, const StepPlace& place);

}  // namespace ultra::collectives

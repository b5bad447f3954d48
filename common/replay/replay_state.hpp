#pragma once
/// @file
/// ReplayState: how far the ranks of a replay are. Nobody but replay() needs it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "common/gpu/meta/tape.hpp"
#include "common/replay/cluster/placement.hpp"
#include "common/replay/replay.hpp"

namespace ultra::replay {

/// A date that nobody knows yet.
inline constexpr double kUnknown = -1;
/// The index of nothing.
inline constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

/// @brief What a wait is booked on: a stream, by its role; one of these; or, from kFirstExchange on,
/// one of a rank's pairs of a group and a label.
enum Account : std::uint32_t {
  kHost = gpu::kNumStreamRoles,  ///< had not issued it
  kStage,                        ///< a message
  kFirstExchange,                ///< ReplayedRank::exchanges[0]
};

/// @brief When what is issued from an entry on is issued.
struct IssueStep {
  std::size_t entry;  ///< the first
  double time;        ///< the host's
};

/// @brief Where a stream is.
struct StreamClock {
  std::size_t entry = 0;    ///< its next, of the whole tape
  std::size_t step = 0;     ///< into RankState::steps
  double time = 0;          ///< it is free
  std::uint32_t cause = 0;  ///< what it was busy with, or waited for: an Account
};

/// @brief The other end of a message; none where that rank is not recorded.
struct OtherEnd {
  std::uint32_t rank = kNone;     ///< into ReplayState::ranks
  std::uint32_t message = kNone;  ///< on its tape
};

/// @brief A recorded rank. Its items are its exchanges, then its messages.
struct RankState {
  int rank = 0;                     ///< of the world
  const gpu::Tape* tape = nullptr;  ///< what it has recorded
  ReplayedRank result;              ///< exchanges and spans so far

  std::size_t host_entry = 0;                               ///< its host's next
  double host_time = 0;                                     ///< its host's
  std::uint32_t host_cause = kHost;                         ///< what that waited for: an Account
  double host_exchange_end = kUnknown;                      ///< of the one that its host waits for
  std::vector<IssueStep> steps{{0, 0.0}};                   ///< its host's times
  std::array<StreamClock, gpu::kNumStreamRoles> streams{};  ///< by role

  std::vector<double> when;                 ///< of events: their dates
  std::vector<std::uint32_t> cause;         ///< of events: what they end, an Account
  std::vector<std::uint32_t> first_item;    ///< of events: an item that they let begin
  std::vector<std::uint32_t> next_item;     ///< of items: another with the same event
  std::vector<double> issued;               ///< of items
  std::vector<double> ready;                ///< of items: issued, and the event has come
  std::vector<OtherEnd> other_end;          ///< of messages
  std::vector<std::uint32_t> account;       ///< of exchanges
  std::vector<std::uint32_t> next_in_lane;  ///< of exchanges: the group's next
  std::vector<std::uint32_t> head;          ///< of groups: the exchange that has not begun
  std::vector<std::uint32_t> lane;          ///< of groups: into ReplayState::lanes

  std::array<double, 2> link_free{};  ///< in the node, through the NIC
  double stolen_until = 0;            ///< exchanges are beside the compute stream's work
  std::uint32_t stolen_by = 0;        ///< the last of those: an Account
  std::vector<double> waited;         ///< by the compute stream, by Account
  std::vector<double> phase_busy;     ///< by the compute stream, by name and kind
  double last_end = 0;                ///< of all that it does
  std::uint32_t last_cause = kHost;   ///< of that: an Account
  bool has_news = true;               ///< it may go on

  /// @brief The item that a message is.
  [[nodiscard]] std::uint32_t item_of_message(std::size_t message) const {
    return static_cast<std::uint32_t>(tape->exchanges.size() + message);
  }
  /// @brief Something of the rank ends.
  void end_with(double time, std::uint32_t by) {
    if (time <= last_end) return;
    last_end = time;
    last_cause = by;
  }
};

/// @brief A recorded rank that knows a group.
struct LaneMember {
  std::uint32_t rank;   ///< into ReplayState::ranks
  std::uint32_t group;  ///< on its tape
};

/// @brief A group, and its next exchange as far as its members are there.
struct Lane {
  const gpu::TapedGroup* group = nullptr;  ///< on one of the tapes
  GroupPlacement placement = {};           ///< of all its ranks
  std::size_t placement_index = 0;         ///< into ReplayState::placements
  std::vector<LaneMember> members = {};    ///< that are recorded
  std::size_t recorded = 0;                ///< ranks of the group: that many must arrive
  std::size_t arrived = 0;                 ///< of them
  double begin = 0;                        ///< of the next exchange, as far as links are free
  double free = 0;                         ///< the one before has ended
  std::uint32_t sequence = 0;              ///< of the next exchange, as all the following
  gpu::ExchangeKind kind{};                ///< what it does
  std::size_t bytes = 0;                   ///< the most that a member says
  int first = 0;                           ///< the rank that arrived first
};

/// @brief All of them.
struct ReplayState {
  std::vector<RankState> ranks;            ///< in order of their ranks
  std::vector<Lane> lanes;                 ///< in the order in which they are first named
  std::vector<GroupPlacement> placements;  ///< that are different

  /// @brief Whether the rank is among them.
  [[nodiscard]] bool is_recorded(int rank) const;
};

/// @brief Before the first entry of each tape.
/// @throws ConfigError when a rank is given twice.
[[nodiscard]] ReplayState state_before(std::span<const RankTape> tapes, int gpus_per_node);

/// @brief Checks that nobody waits any more.
/// @throws ConfigError naming the ranks that do, and what they wait for.
void expect_the_end(const ReplayState& state);

}  // namespace ultra::replay

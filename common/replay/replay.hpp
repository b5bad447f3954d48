#pragma once
/// @file
/// replay: when everything on the tapes of some ranks would begin and end on a cluster.

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/gpu/meta/tape.hpp"
#include "common/replay/prices.hpp"

namespace ultra::replay {

/// Number of kinds of work.
inline constexpr std::size_t kWorkKinds = 5;

/// @brief What one rank has recorded.
struct RankTape {
  int rank = 0;                     ///< of the world
  const gpu::Tape* tape = nullptr;  ///< of one step
};

/// @brief Something that took time: a row of a trace.
struct Span {
  double begin = 0;        ///< seconds since the step began
  double end = 0;          ///< likewise
  std::string_view track;  ///< a stream's role, a group's name, or "messages"
  std::string_view name;   ///< of the work, or the label of an exchange; "send" or "receive"
  std::string_view phase;  ///< of work; views into the tape
};

/// @brief Whether a replay keeps its spans.
enum class Spans : bool { kDropped, kKept };

/// @brief A phase of the step: work on the compute stream.
struct ReplayedPhase {
  std::string name;                       ///< of gpu::TapedWork::phase
  std::array<double, kWorkKinds> busy{};  ///< seconds, by gpu::WorkKind
};

/// @brief The exchanges of one group with one label.
struct ReplayedExchanges {
  std::string group;      ///< gpu::TapedGroup::name
  std::string label;      ///< gpu::TapedExchange::label
  std::size_t times = 0;  ///< how many
  double sent_bytes = 0;  ///< by this rank
  double seconds = 0;     ///< from their begins to their ends, together
  double waited = 0;      ///< of the compute stream's, for them
};

/// @brief A rank's step. What its compute stream computed and waited for are its seconds, all of them.
struct ReplayedRank {
  int rank = 0;                           ///< of the world
  double seconds = 0;                     ///< until its last work, exchange and receive have ended
  std::array<double, kWorkKinds> busy{};  ///< of the compute stream, by gpu::WorkKind
  std::vector<ReplayedPhase> phases;      ///< those seconds by phase, in order of the tape's names
  std::vector<ReplayedExchanges> exchanges;  ///< in the order in which the first of each is issued
  double for_a_stage = 0;                    ///< the compute stream waited for messages
  double for_streams = 0;                    ///< for work on the other two streams
  double for_the_host = 0;                   ///< for its host to issue its work
  std::vector<Span> spans;                   ///< empty where none are kept

  /// @brief What the compute stream waited for exchanges.
  [[nodiscard]] double for_exchanges() const;
  /// @brief What the compute stream worked.
  [[nodiscard]] double work() const;
};

/// @brief Prices the tapes of some ranks, which run beside each other.
///
/// A rank has a time for its host, for each of its streams, and a lane for each group. The host's
/// own work takes no time: it waits at kHostWait and for exchanges of its memory. Nothing begins
/// before its host has issued it, work begins when its stream is free, and a wait moves its stream
/// to the event: what it gains is booked on what the event ended. An exchange begins when `ready`
/// has come on every recorded member, the one before it in its lane has ended, and its recorded
/// members hold no other exchange on the same links: in the node where all members share one,
/// through the NIC otherwise. Of those that could begin, the earliest does. A message begins when
/// both ends are there, and takes no stream. Ranks that are not recorded are as early as those that
/// are.
///
/// Where Cluster::ranks_copy, an exchange in the node is work of its members' compute streams, too;
/// work beside an exchange through the NIC takes longer by Cluster::network_steals of what they
/// have in common.
///
/// Exchanges of recorded ranks meet by their group and their number in it, messages by their group,
/// their two ends, their name and their order. The order of `ranks` changes nothing.
/// @return one for each of `ranks`, in their order; not multiplied by straggler_slowdown().
/// @throws ConfigError when a rank is given twice, when ranks issue different exchanges in one
/// place, or when all ranks wait for each other, naming them and what they wait for.
[[nodiscard]] std::vector<ReplayedRank> replay(std::span<const RankTape> ranks,
                                               const Prices& prices, Spans spans = Spans::kDropped);

}  // namespace ultra::replay

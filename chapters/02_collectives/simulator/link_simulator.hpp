#pragma once
/// @file
/// The link simulator: how long a collective takes on a machine that is not here.
///
/// It reads the step lists that ranks carry out for real (comm::Schedule) and moves no data, only a
/// clock. Where a closed form exists (cost_model.hpp) the two agree; where messages share a NIC or a
/// torus link, wait for each other, or cross slow links in the middle of a ring, only the
/// simulation tells.
///
/// The rules:
/// - Lanes of a rank run side by side; each takes its steps one after the other.
/// - A message starts when both its ends have reached their step and all ports on its way are free
///   (Topology::route). Of messages that wait for a port, the one that has waited longest goes
///   first, then the one of the lowest rank. A shared NIC thus sends one message at a time: all of
///   its bandwidth for one, instead of a share for each. Equal messages that start together end, the
///   last of them, at the same time either way.
/// - It keeps its ports busy for bytes * beta seconds and arrives alpha later: ports are free during
///   the latency. An empty message has only its latency.
/// - Sending ends when the message arrives; receiving, after another bytes * gamma seconds if it is
///   reduced. A step ends when both have. A copy within a rank takes no time, but for its gamma.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "chapters/02_collectives/simulator/topology.hpp"
#include "common/base/errors.hpp"
#include "common/comm/collectives/schedule.hpp"

namespace ultra::collectives {

/// @brief Schedules of different ranks that do not fit together: the message names ranks and steps.
class ScheduleError : public Error {
 public:
  using Error::Error;
};

/// @brief Makes one rank's schedule; called once per rank, in order, and the result is not kept.
using ScheduleOfRank = std::function<comm::Schedule(int rank)>;

/// @brief What the simulation writes down.
enum class Record : std::uint8_t {
  kTotals,    ///< sums only
  kMessages,  ///< every message, too: some 64 bytes each
};

/// @brief One message of the simulated run.
struct MessageRecord {
  int from = 0;                      ///< rank
  int to = 0;                        ///< rank
  int lane = 0;                      ///< of both schedules
  std::size_t send_step = 0;         ///< step of the sender's lane: its `send` says which elements
  std::size_t receive_step = 0;      ///< step of the receiver's lane
  std::size_t bytes = 0;             ///< its size
  LinkKind kind = LinkKind::kIntra;  ///< where it travelled
  double start = 0.0;                ///< seconds: when its ports became busy
  double sent = 0.0;                 ///< seconds: when its ports were free again
  double arrival = 0.0;              ///< seconds: when the receiver had it

  bool operator==(const MessageRecord&) const = default;
};

/// @brief Bytes through one NIC.
struct NicTraffic {
  std::size_t sent_bytes = 0;      ///< out of the node
  std::size_t received_bytes = 0;  ///< into the node

  bool operator==(const NicTraffic&) const = default;
};

/// @brief What a simulated run took.
struct SimulationResult {
  double seconds = 0.0;                         ///< until the last rank has ended
  std::vector<double> rank_seconds;             ///< until each rank has ended
  std::size_t messages = 0;                     ///< between different ranks
  std::array<std::size_t, kLinkKinds> bytes{};  ///< sent over each LinkKind; once per message
  std::vector<NicTraffic> nics;                 ///< nodes * nics_per_node, node by node
  std::vector<MessageRecord> records;           ///< in the order of their start; see Record

  /// @brief Bytes over links of one kind.
  [[nodiscard]] std::size_t bytes_over(LinkKind kind) const {
    return bytes[static_cast<std::size_t>(kind)];
  }
};

/// @brief Runs the schedules of all ranks of a topology against the clock.
/// @param topology       who is joined to whom; valid.
/// @param element_bytes  bytes of one element of the schedules' ranges, at least 1.
/// @param schedule_of    rank r's steps; a rank that takes no part has none.
/// @throws ScheduleError when a message's ends differ in size, a step names a rank that does not
/// exist, or ranks wait for each other for ever (a deadlock: the message names them).
/// Cost: time O(messages log(ranks)); memory 16 bytes per step, which for a ring all-reduce on 4096
/// ranks is 540 MB.
[[nodiscard]] SimulationResult simulate(const Topology& topology, std::size_t element_bytes,
                                        const ScheduleOfRank& schedule_of,
                                        Record record = Record::kTotals);

}  // namespace ultra::collectives

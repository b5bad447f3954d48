#include "chapters/02_collectives/simulator/link_simulator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <queue>
#include <string>
#include <utility>

#include "chapters/02_collectives/simulator/event_queue.hpp"
#include "common/base/interrupt.hpp"
#include "common/base/numeric.hpp"

namespace ultra::collectives {
namespace {

/// A step without its places in memory: who sends how much to whom.
///
/// A ring all-reduce on 4096 ranks has 33.5 million steps, which are 2.7 GB as comm::Round.
struct CompactStep {
  static constexpr std::uint64_t kNoPeer = (std::uint64_t{1} << 20) - 1;    // comm::kNobody
  static constexpr std::uint64_t kMaxCount = (std::uint64_t{1} << 43) - 1;  // more do not fit

  std::uint64_t send_to : 20;        ///< rank or kNoPeer
  std::uint64_t send_count : 43;     ///< elements
  std::uint64_t reduces : 1;         ///< what is received is combined, not stored
  std::uint64_t receive_from : 20;   ///< rank or kNoPeer
  std::uint64_t receive_count : 43;  ///< elements

  [[nodiscard]] bool sends() const { return send_to != kNoPeer; }
  [[nodiscard]] bool receives() const { return receive_from != kNoPeer; }
  /// Whether it stays within its rank: a copy, or nothing at all.
  [[nodiscard]] bool is_local(int rank) const {
    return send_to == static_cast<std::uint64_t>(rank) || (!sends() && !receives());
  }
};
static_assert(sizeof(CompactStep) == 16);

/// Where a step stands.
struct StepPlace {
  int rank = 0;           ///< whose step it is
  int ranks = 0;          ///< there are, for its peers
  std::size_t lane = 0;   ///< of the rank's schedule
  std::size_t index = 0;  ///< in the lane
};

void check(const comm::Round& step, const StepPlace& place) {
  const auto [rank, ranks, lane, index] = place;
  const auto fail = [&, rank = rank, lane = lane, index = index](const std::string& what) {
    throw ScheduleError(fmt::format("rank {}, lane {}, step {}: {}. The step {}.", rank, lane,
                                    index, what, comm::to_string(step)));
  };
  for (const int peer : {step.send_to, step.receive_from}) {
    if (peer != comm::kNobody && (peer < 0 || peer >= ranks)) {
      fail(fmt::format("there is no rank {}, only 0 to {}", peer, ranks - 1));
    }
  }
  if ((step.send_to == rank) != (step.receive_from == rank)) {
    fail("a rank's message to itself is sent and received in one step");
  }
  if (step.send_to == rank && step.send.range.size() != step.receive.range.size()) {
    fail("a copy within a rank reads and writes different numbers of elements");
  }
  if (step.send.range.size() > CompactStep::kMaxCount ||
      step.receive.range.size() > CompactStep::kMaxCount) {
    fail(fmt::format("a message of more than {} elements", CompactStep::kMaxCount));
  }
}

std::uint64_t peer_bits(int peer) {
  return peer == comm::kNobody ? CompactStep::kNoPeer : static_cast<std::uint64_t>(peer);
}

CompactStep compact(const comm::Round& step, const StepPlace& place) {
  check(step, place);
  CompactStep result{};
  result.send_to = peer_bits(step.send_to) & CompactStep::kNoPeer;
  result.send_count = step.send.range.size() & CompactStep::kMaxCount;
  result.reduces = step.on_receive == comm::OnReceive::kReduce ? 1U : 0U;
  result.receive_from = peer_bits(step.receive_from) & CompactStep::kNoPeer;
  result.receive_count = step.receive.range.size() & CompactStep::kMaxCount;
  return result;
}

/// A message that waits for a port.
struct Waiting {
  double since = 0.0;
  std::uint32_t sender = 0;  ///< lane

  bool operator>(const Waiting& other) const {
    return since > other.since || (since == other.since && sender > other.sender);
  }
};

template <class T>
using Earliest = std::priority_queue<T, std::vector<T>, std::greater<T>>;

/// Where a lane of a rank stands.
struct LaneState {
  std::size_t first = 0;       ///< where its steps begin, among those of all lanes
  std::size_t size = 0;        ///< number of its steps
  std::size_t position = 0;    ///< the step that it has reached
  CompactStep step{};          ///< that step
  double ended = 0.0;          ///< when the halves of this step that are known have ended
  int open_halves = 0;         ///< halves of this step whose end is not known
  bool send_waits = false;     ///< the receiver has not reached its step
  bool receive_waits = false;  ///< the sender has not
  int rank = 0;
  int lane = 0;
  int routed_to = comm::kNobody;  ///< the receiver that `route` leads to
  Route route;

  [[nodiscard]] bool finished() const { return position == size; }
};

struct Port {
  double free_at = 0.0;
  bool wakes = false;  ///< an event is due when it becomes free
  Earliest<Waiting> waiting;
};

class Simulation {
 public:
  Simulation(const Topology& topology, std::size_t element_bytes, Record record)
      : topology_(topology),
        element_bytes_(element_bytes),
        record_(record),
        ports_(checked_cast<std::size_t>(topology.port_count())) {}

  void load(const ScheduleOfRank& schedule_of);
  SimulationResult run();

 private:
  void load_rank(const comm::Schedule& schedule, int rank);
  void begin_step(std::uint32_t lane, double now);
  void meet(std::uint32_t sender, std::uint32_t receiver, double now);
  void try_to_start(const Waiting& message, double now);
  void start(LaneState& sender, double now);
  void end_half(std::uint32_t lane, double time);
  void port_is_free(std::uint32_t port, double now);
  void check_all_finished() const;

  [[nodiscard]] std::uint32_t port_count() const {
    return static_cast<std::uint32_t>(ports_.size());
  }
  /// The lane of the same number at another rank; lane_count() where that rank has none.
  [[nodiscard]] std::uint32_t lane_at(std::uint64_t rank, int lane) const {
    const std::uint32_t index = first_lane_[rank] + static_cast<std::uint32_t>(lane);
    return index < first_lane_[rank + 1] ? index : lane_count();
  }
  [[nodiscard]] std::uint32_t lane_count() const {
    return static_cast<std::uint32_t>(lanes_.size());
  }
  [[nodiscard]] std::string describe(const LaneState& lane) const;
  [[nodiscard]] std::string missing_peer(const LaneState& lane) const;

  const Topology& topology_;
  std::size_t element_bytes_;
  Record record_;
  std::vector<LaneState> lanes_;
  std::vector<CompactStep> steps_;         ///< of all lanes
  std::vector<std::uint32_t> first_lane_;  ///< of each rank, and lane_count() behind the last
  std::vector<Port> ports_;
  EventQueue events_;  ///< a port that becomes free, or port_count() + a lane that takes a step
  SimulationResult result_;
};

void Simulation::load(const ScheduleOfRank& schedule_of) {
  const int ranks = topology_.ranks();
  for (int rank = 0; rank < ranks; ++rank) {
    first_lane_.push_back(lane_count());
    load_rank(schedule_of(rank), rank);
    // One allocation instead of many, each twice as large: the ranks' shares are mostly equal.
    if (rank == 0) steps_.reserve(steps_.size() * checked_cast<std::size_t>(ranks));
  }
  first_lane_.push_back(lane_count());
}

void Simulation::load_rank(const comm::Schedule& schedule, int rank) {
  throw_if_interrupted();
  StepPlace place{.rank = rank, .ranks = topology_.ranks()};
  for (place.lane = 0; place.lane < schedule.lanes.size(); ++place.lane) {
    const comm::Lane& lane = schedule.lanes[place.lane];
    LaneState state;
    state.first = steps_.size();
    state.rank = rank;
    state.lane = checked_cast<int>(place.lane);
    for (place.index = 0; place.index < lane.size(); ++place.index) {
      const CompactStep step = compact(lane[place.index], place);
      const bool takes_no_time = step.is_local(rank) && step.reduces == 0;
      // Message records count the steps: then all are kept.
      if (!takes_no_time || record_ == Record::kMessages) steps_.push_back(step);
    }
    state.size = steps_.size() - state.first;
    lanes_.push_back(std::move(state));
  }
}

SimulationResult Simulation::run() {
  result_.rank_seconds.assign(checked_cast<std::size_t>(topology_.ranks()), 0.0);
  if (!topology_.is_torus()) {
    result_.nics.resize(checked_cast<std::size_t>(topology_.nodes * topology_.nics_per_node));
  }
  for (std::uint32_t lane = 0; lane < lane_count(); ++lane) begin_step(lane, 0.0);
  std::vector<std::uint32_t> ids;
  while (!events_.empty()) {
    throw_if_interrupted();
    // Ports come before lanes: a message that has waited for a port gets it before one that asks
    // for it at the very moment at which it becomes free.
    const double now = events_.pop(ids);
    for (const std::uint32_t id : ids) {
      if (id < port_count()) {
        port_is_free(id, now);
      } else {
        ++lanes_[id - port_count()].position;
        begin_step(id - port_count(), now);
      }
    }
  }
  check_all_finished();
  for (const double seconds : result_.rank_seconds) {
    result_.seconds = std::max(result_.seconds, seconds);
  }
  return std::move(result_);
}

void Simulation::begin_step(std::uint32_t lane, double now) {
  LaneState& state = lanes_[lane];
  if (state.finished()) {
    double& seconds = result_.rank_seconds[static_cast<std::size_t>(state.rank)];
    seconds = std::max(seconds, now);
    return;
  }
  state.step = steps_[state.first + state.position];
  const CompactStep step = state.step;
  const auto self = static_cast<std::uint64_t>(state.rank);
  state.ended = now;
  if (step.is_local(state.rank)) {
    const double bytes = static_cast<double>(step.receive_count * element_bytes_);
    state.open_halves = 1;
    end_half(lane, step.reduces != 0 ? now + bytes * topology_.gamma : now);
    return;
  }
  state.open_halves = (step.sends() ? 1 : 0) + (step.receives() ? 1 : 0);
  state.send_waits = step.sends();
  state.receive_waits = step.receives();
  if (step.sends()) {
    const std::uint32_t peer = lane_at(step.send_to, state.lane);
    if (peer < lane_count() && lanes_[peer].receive_waits &&
        lanes_[peer].step.receive_from == self) {
      meet(lane, peer, now);
    }
  }
  if (step.receives()) {
    const std::uint32_t peer = lane_at(step.receive_from, state.lane);
    if (peer < lane_count() && lanes_[peer].send_waits && lanes_[peer].step.send_to == self) {
      meet(peer, lane, now);
    }
  }
}

/// Both ends of a message have reached their step.
void Simulation::meet(std::uint32_t sender, std::uint32_t receiver, double now) {
  LaneState& from = lanes_[sender];
  LaneState& to = lanes_[receiver];
  if (from.step.send_count != to.step.receive_count) {
    throw ScheduleError(
        fmt::format("a message's ends differ in size: {}, but {}.", describe(from), describe(to)));
  }
  from.send_waits = false;
  to.receive_waits = false;
  if (from.routed_to != to.rank) {
    from.route = topology_.route(from.rank, to.rank);
    from.routed_to = to.rank;
  }
  try_to_start({.since = now, .sender = sender}, now);
}

/// Starts the message, or leaves it with a port that is busy.
void Simulation::try_to_start(const Waiting& message, double now) {
  LaneState& sender = lanes_[message.sender];
  for (const int index : sender.route.ports) {
    Port& port = ports_[static_cast<std::size_t>(index)];
    if (port.free_at <= now) continue;
    port.waiting.push(message);
    if (!port.wakes) events_.push(port.free_at, static_cast<std::uint32_t>(index));
    port.wakes = true;
    return;
  }
  start(sender, now);
}

void Simulation::start(LaneState& sender, double now) {
  const Route& route = sender.route;
  const CompactStep& step = sender.step;
  const std::size_t size = step.send_count * element_bytes_;
  const auto bytes = static_cast<double>(size);
  const double sent = now + bytes * route.beta;
  const double arrival = sent + route.alpha;
  for (const int port : route.ports) ports_[static_cast<std::size_t>(port)].free_at = sent;

  const std::uint32_t receiver_index = lane_at(step.send_to, sender.lane);
  const LaneState& receiver = lanes_[receiver_index];
  ++result_.messages;
  result_.bytes[static_cast<std::size_t>(route.kind)] += size;
  if (route.kind == LinkKind::kInter) {
    const auto nic_of = [&](int rank) { return static_cast<std::size_t>(topology_.nic_of(rank)); };
    result_.nics[nic_of(sender.rank)].sent_bytes += size;
    result_.nics[nic_of(receiver.rank)].received_bytes += size;
  }
  if (record_ == Record::kMessages) {
    result_.records.push_back({.from = sender.rank,
                               .to = receiver.rank,
                               .lane = sender.lane,
                               .send_step = sender.position,
                               .receive_step = receiver.position,
                               .bytes = size,
                               .kind = route.kind,
                               .start = now,
                               .sent = sent,
                               .arrival = arrival});
  }
  const bool reduces = receiver.step.reduces != 0;
  end_half(static_cast<std::uint32_t>(&sender - lanes_.data()), arrival);
  end_half(receiver_index, reduces ? arrival + bytes * topology_.gamma : arrival);
}

void Simulation::end_half(std::uint32_t lane, double time) {
  LaneState& state = lanes_[lane];
  state.ended = std::max(state.ended, time);
  if (--state.open_halves == 0) events_.push(state.ended, port_count() + lane);
}

void Simulation::port_is_free(std::uint32_t index, double now) {
  Port& port = ports_[index];
  port.wakes = false;
  // Each is tried: one that another port holds up moves there, and the next gets its chance.
  while (!port.waiting.empty() && port.free_at <= now) {
    const Waiting message = port.waiting.top();
    port.waiting.pop();
    try_to_start(message, now);
  }
  if (!port.waiting.empty() && !port.wakes) {
    events_.push(port.free_at, index);
    port.wakes = true;
  }
}

std::string Simulation::describe(const LaneState& lane) const {
  if (lane.finished()) return fmt::format("rank {}, lane {} has ended", lane.rank, lane.lane);
  const CompactStep& step = lane.step;
  std::string halves;
  if (step.sends()) {
    halves = fmt::format("sends {} elements to rank {}", std::size_t{step.send_count},
                         std::size_t{step.send_to});
  }
  if (step.receives()) {
    halves += fmt::format("{}receives {} elements from rank {}", halves.empty() ? "" : ", ",
                          std::size_t{step.receive_count}, std::size_t{step.receive_from});
  }
  return fmt::format("rank {}, lane {}, step {} {}", lane.rank, lane.lane, lane.position, halves);
}

/// For a rank that waits: what the rank that it waits for does instead.
std::string Simulation::missing_peer(const LaneState& lane) const {
  const CompactStep& step = lane.step;
  const std::uint64_t rank = lane.send_waits ? step.send_to : step.receive_from;
  const std::uint32_t peer = lane_at(rank, lane.lane);
  if (peer == lane_count()) return fmt::format("rank {} has no lane {}", rank, lane.lane);
  return describe(lanes_[peer]);
}

void Simulation::check_all_finished() const {
  constexpr int kShown = 3;
  int stuck = 0;
  std::string text;
  for (const LaneState& lane : lanes_) {
    if (lane.finished()) continue;
    if (stuck++ >= kShown) continue;
    text +=
        fmt::format("{}{}, but {}", text.empty() ? "" : "; ", describe(lane), missing_peer(lane));
  }
  if (stuck == 0) return;
  throw ScheduleError(fmt::format("deadlock: {} of {} lanes wait for ever: {}{}.", stuck,
                                  lane_count(), text, stuck > kShown ? "; ..." : ""));
}

}  // namespace

SimulationResult simulate(const Topology& topology, std::size_t element_bytes,
                          const ScheduleOfRank& schedule_of, Record record) {
  topology.validate();
  if (element_bytes == 0) throw ConfigError("the simulation needs elements of at least 1 byte.");
  Simulation simulation(topology, element_bytes, record);
  simulation.load(schedule_of);
  return simulation.run();
}

}  // namespace ultra::collectives

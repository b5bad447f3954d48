#include "common/replay/replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <compare>
#include <cstdint>
#include <functional>
#include <numeric>
#include <queue>
#include <unordered_map>
#include <utility>

#include "common/base/errors.hpp"
#include "common/base/text.hpp"
#include "common/replay/replay_state.hpp"

namespace ultra::replay {
namespace {

using gpu::EntryKind;
using gpu::EventId;
using gpu::StreamRole;

/// Products come in few shapes, and a price of one asks for logarithms or tiles.
class WorkPrices {
 public:
  explicit WorkPrices(const Cluster& cluster) : cluster_(cluster) {}

  double operator()(const gpu::TapedWork& work) {
    if (work.kind != gpu::WorkKind::kProduct) return work_seconds(cluster_, work);
    const std::size_t bytes = work.read_bytes + work.written_bytes;
    const std::size_t hash =
        (((work.m * 31 + work.k) * 31 + work.n) * 31 + work.count) * 31 + bytes;
    Slot& slot = slots_[(hash ^ hash >> 8U) % slots_.size()];
    if (slot.m != work.m || slot.k != work.k || slot.n != work.n || slot.count != work.count ||
        slot.element_bytes != work.element_bytes || slot.bytes != bytes) {
      slot = {work.m,
              work.k,
              work.n,
              work.count,
              work.element_bytes,
              bytes,
              work_seconds(cluster_, work)};
    }
    return slot.seconds;
  }

 private:
  struct Slot {
    std::size_t m = 0, k = 0, n = 0, count = 0, element_bytes = 0, bytes = 0;
    double seconds = kUnknown;
  };
  const Cluster& cluster_;
  std::array<Slot, 256> slots_{};
};

std::size_t slot_of(StreamRole role) { return static_cast<std::size_t>(role); }

class Replayer {
 public:
  Replayer(std::span<const RankTape> tapes, const Prices& prices, Spans spans)
      : cluster_(prices.cluster),
        prices_(prices),
        work_price_(cluster_),
        keeps_spans_(spans == Spans::kKept),
        state_(state_before(tapes, cluster_.gpus_per_node)) {
    known_prices_.resize(state_.placements.size());
  }

  void run() {
    for (auto rank = static_cast<std::uint32_t>(state_.ranks.size()); rank-- > 0;) {
      news_.push_back(rank);
    }
    while (true) {
      while (!news_.empty() || !due_.empty()) {
        hand_on_due_items();
        if (news_.empty()) break;
        RankState& rank = state_.ranks[news_.back()];
        news_.pop_back();
        rank.has_news = false;
        advance(rank);
      }
      if (waiting_.empty()) break;
      begin_the_earliest();
    }
    expect_the_end(state_);
  }

  std::vector<ReplayedRank> take(std::span<const RankTape> order) {
    std::vector<ReplayedRank> all;
    all.reserve(order.size());
    for (const RankTape& one : order) {
      all.push_back(
          result_of(*std::ranges::lower_bound(state_.ranks, one.rank, {}, &RankState::rank)));
    }
    return all;
  }

 private:
  // One rank ------------------------------------------------------------------------------------

  void advance(RankState& rank) {
    bool goes_on = true;
    while (goes_on) {
      goes_on = advance_host(rank);
      for (std::size_t role = 0; role < rank.streams.size(); ++role) {
        goes_on = advance_stream(rank, role) || goes_on;
      }
      hand_on_due_items();
    }
  }

  /// False where it waits for a date that nobody knows, or has issued all.
  bool advance_host(RankState& rank) {
    const gpu::Tape& tape = *rank.tape;
    const std::size_t before = rank.host_entry;
    for (; rank.host_entry < tape.entries.size(); ++rank.host_entry) {
      const gpu::Entry& entry = tape.entries[rank.host_entry];
      if (entry.kind == EntryKind::kExchange) {
        const gpu::TapedExchange& exchange = tape.exchanges[entry.index];
        issue(rank, entry.index, exchange.ready);
        if (!exchange.of_host) continue;
        if (rank.host_exchange_end == kUnknown) break;
        const double end = std::exchange(rank.host_exchange_end, kUnknown);
        move_host(rank, end, rank.account[entry.index]);
      } else if (entry.kind == EntryKind::kMessage) {
        issue(rank, rank.item_of_message(entry.index), tape.messages[entry.index].ready);
      } else if (entry.kind == EntryKind::kHostWait) {
        if (rank.when[entry.index] == kUnknown) break;
        move_host(rank, rank.when[entry.index], rank.cause[entry.index]);
      }
    }
    return rank.host_entry != before;
  }

  static void move_host(RankState& rank, double time, std::uint32_t cause) {
    if (time <= rank.host_time) return;
    rank.host_time = time;
    rank.host_cause = cause;
    rank.steps.push_back({rank.host_entry + 1, time});
  }

  /// Once: an exchange of the host's memory comes here again when its host goes on.
  void issue(RankState& rank, std::uint32_t item, EventId ready) {
    if (rank.issued[item] != kUnknown) return;
    rank.issued[item] = rank.host_time;
    if (rank.when[ready] == kUnknown) {
      rank.next_item[item] = std::exchange(rank.first_item[ready], item);
    } else {
      due_.push_back({index_of(rank), item, rank.when[ready]});
    }
  }

  /// False where it waits for a date that nobody knows, or has done all that is issued.
  bool advance_stream(RankState& rank, std::size_t role) {
    const gpu::Tape& tape = *rank.tape;
    StreamClock& stream = rank.streams[role];
    const std::size_t before = stream.entry;
    for (; stream.entry < rank.host_entry; ++stream.entry) {
      const gpu::Entry& entry = tape.entries[stream.entry];
      if (slot_of(entry.role) != role) continue;
      if (entry.kind == EntryKind::kWork) {
        wait(rank, role, issued_at(rank, stream), kHost);
        work(rank, role, tape.works[entry.index]);
      } else if (entry.kind == EntryKind::kRecord) {
        const double issued = issued_at(rank, stream);
        const bool is_idle = issued > stream.time;
        settle(rank, entry.index, is_idle ? issued : stream.time, is_idle ? kHost : stream.cause);
      } else if (entry.kind == EntryKind::kWait) {
        if (rank.when[entry.index] == kUnknown) break;
        wait(rank, role, rank.when[entry.index], rank.cause[entry.index]);
      }
    }
    return stream.entry != before;
  }

  static double issued_at(const RankState& rank, StreamClock& stream) {
    while (stream.step + 1 < rank.steps.size() &&
           rank.steps[stream.step + 1].entry <= stream.entry) {
      ++stream.step;
    }
    return rank.steps[stream.step].time;
  }

  static void wait(RankState& rank, std::size_t role, double until, std::uint32_t cause) {
    StreamClock& stream = rank.streams[role];
    if (until <= stream.time) return;
    if (role == slot_of(StreamRole::kCompute)) rank.waited[cause] += until - stream.time;
    stream.time = until;
    stream.cause = cause;
  }

  void work(RankState& rank, std::size_t role, const gpu::TapedWork& work) {
    StreamClock& stream = rank.streams[role];
    const double begin = stream.time;
    const double seconds = work_price_(work);
    stream.time += seconds;
    stream.cause = static_cast<std::uint32_t>(role);
    if (role == slot_of(StreamRole::kCompute)) {
      rank.phase_busy[work.phase * kWorkKinds + static_cast<std::size_t>(work.kind)] += seconds;
      if (begin < rank.stolen_until) {
        const double beside = std::min(rank.stolen_until, stream.time) - begin;
        lose(rank, cluster_.network_steals * beside, rank.stolen_by);
      }
    }
    if (keeps_spans_) {
      add_span(rank, {begin, stream.time, gpu::to_string(gpu::kStreamRoles[role]),
                      rank.tape->names[work.name], rank.tape->names[work.phase]});
    }
  }

  static void lose(RankState& rank, double seconds, std::uint32_t by) {
    wait(rank, slot_of(StreamRole::kCompute),
         rank.streams[slot_of(StreamRole::kCompute)].time + seconds, by);
  }

  /// The event has a date.
  void settle(RankState& rank, EventId event, double time, std::uint32_t cause) {
    if (event == 0) return;
    rank.when[event] = time;
    rank.cause[event] = cause;
    for (std::uint32_t item = std::exchange(rank.first_item[event], kNone); item != kNone;
         item = rank.next_item[item]) {
      due_.push_back({index_of(rank), item, time});
    }
  }

  // Between ranks -------------------------------------------------------------------------------

  /// An item whose `ready` has come.
  struct DueItem {
    std::uint32_t rank;
    std::uint32_t item;
    double time;
  };

  void hand_on_due_items() {
    while (!due_.empty()) {
      const DueItem due = due_.back();
      due_.pop_back();
      RankState& rank = state_.ranks[due.rank];
      rank.ready[due.item] = std::max(due.time, rank.issued[due.item]);
      const std::size_t exchanges = rank.tape->exchanges.size();
      if (due.item >= exchanges) {
        meet(rank, due.item - exchanges);
      } else if (rank.head[rank.tape->exchanges[due.item].group] == due.item) {
        arrive(rank, due.item);
      }
    }
  }

  void meet(RankState& rank, std::size_t index) {
    const gpu::TapedMessage& message = rank.tape->messages[index];
    const double here = rank.ready[rank.item_of_message(index)];
    const OtherEnd& other = rank.other_end[index];
    double begin = here;
    if (other.rank != kNone) {
      const double there =
          state_.ranks[other.rank].ready[state_.ranks[other.rank].item_of_message(other.message)];
      if (there == kUnknown) return;
      begin = std::max(here, there);
    } else if (state_.is_recorded(message.peer)) {
      return;  // which never says so
    }
    const int node = cluster_.gpus_per_node;
    const bool inside = rank.rank / node == message.peer / node;
    const GroupPlacement two{.ranks = 2, .per_node = inside ? 2U : 1U, .nodes = inside ? 1U : 2U};
    const double end = begin + message_seconds(cluster_, two, static_cast<double>(message.bytes));
    end_message(rank, message, begin, end);
    if (other.rank == kNone) return;
    RankState& peer = state_.ranks[other.rank];
    end_message(peer, peer.tape->messages[other.message], begin, end);
  }

  void end_message(RankState& rank, const gpu::TapedMessage& message, double begin, double end) {
    settle(rank, message.end, end, kStage);
    if (!message.sends) rank.end_with(end, kStage);
    if (keeps_spans_) {
      add_span(rank, {begin, end, "messages", message.sends ? "send" : "receive", ""});
    }
    tell(rank);
  }

  void arrive(RankState& rank, std::uint32_t index) {
    const gpu::TapedExchange& exchange = rank.tape->exchanges[index];
    const std::uint32_t number = rank.lane[exchange.group];
    Lane& lane = state_.lanes[number];
    if (lane.arrived == 0) {
      lane.sequence = exchange.sequence;
      lane.kind = exchange.kind;
      lane.bytes = 0;
      lane.begin = lane.free;
      lane.first = rank.rank;
    } else if (lane.sequence != exchange.sequence || lane.kind != exchange.kind) {
      throw ConfigError(fmt::format(
          "Ranks {} and {} are in the group {}, and their next exchanges in it differ: {} number "
          "{}, and {} number {}. All members of a group must issue the same ones in one order.",
          lane.first, rank.rank, in_quotes(lane.group->name), gpu::to_string(lane.kind),
          lane.sequence, gpu::to_string(exchange.kind), exchange.sequence));
    }
    lane.bytes = std::max(lane.bytes, exchange.bytes);
    lane.begin = std::max(lane.begin, rank.ready[index]);
    if (++lane.arrived == lane.recorded) waiting_.push({begin_of(lane), lane.begin, number});
  }

  static std::size_t link_of(const Lane& lane) { return lane.placement.nodes == 1 ? 0 : 1; }

  /// When the next exchange of a lane can begin, as far as one knows.
  [[nodiscard]] double begin_of(const Lane& lane) const {
    double begin = lane.begin;
    if (lane.placement.ranks == 1) return begin;
    for (const LaneMember& member : lane.members) {
      begin = std::max(begin, state_.ranks[member.rank].link_free[link_of(lane)]);
    }
    return begin;
  }

  /// All ranks stand still: what they will issue is not earlier than what they wait for.
  void begin_the_earliest() {
    const auto [known, asked, number] = waiting_.top();
    waiting_.pop();
    Lane& lane = state_.lanes[number];
    const double begin = begin_of(lane);
    if (begin > known) {
      waiting_.push({begin, asked, number});
      return;
    }
    const double end = begin + exchange_price(lane);
    lane.free = end;
    lane.arrived = 0;
    for (const LaneMember& member : lane.members) {
      end_exchange(state_.ranks[member.rank], member.group, lane, begin, end);
    }
    for (const LaneMember& member : lane.members) {
      RankState& rank = state_.ranks[member.rank];
      const std::uint32_t next = rank.head[member.group];
      if (next != kNone && rank.ready[next] != kUnknown) arrive(rank, next);
    }
  }

  void end_exchange(RankState& rank, std::uint32_t group, const Lane& lane, double begin,
                    double end) {
    const std::uint32_t index = rank.head[group];
    rank.head[group] = rank.next_in_lane[index];
    const gpu::TapedExchange& exchange = rank.tape->exchanges[index];
    const std::uint32_t account = rank.account[index];
    ReplayedExchanges& sum = rank.result.exchanges[account - kFirstExchange];
    ++sum.times;
    sum.sent_bytes += static_cast<double>(exchange.sent_bytes);
    sum.seconds += end - begin;
    if (lane.placement.ranks > 1) {
      rank.link_free[link_of(lane)] = end;
      disturb(rank, lane, begin, end, account);
    }
    if (exchange.of_host) rank.host_exchange_end = end;
    settle(rank, exchange.end, end, account);
    rank.end_with(end, account);
    if (keeps_spans_) {
      add_span(rank, {begin, end, lane.group->name, rank.tape->names[exchange.label], ""});
    }
    tell(rank);
  }

  /// What an exchange takes from its member's compute stream, which is at `now` by the time it is
  /// known when the exchange begins.
  void disturb(RankState& rank, const Lane& lane, double begin, double end,
               std::uint32_t account) const {
    const double now = rank.streams[slot_of(StreamRole::kCompute)].time;
    if (lane.placement.nodes == 1) {
      if (cluster_.ranks_copy) lose(rank, std::max(begin - now, 0.0) + end - begin, account);
      return;
    }
    if (cluster_.network_steals == 0) return;
    if (now > begin) lose(rank, cluster_.network_steals * (std::min(now, end) - begin), account);
    rank.stolen_until = end;
    rank.stolen_by = account;
  }

  double exchange_price(const Lane& lane) {
    const auto [found, is_new] =
        known_prices_[lane.placement_index][static_cast<std::size_t>(lane.kind)].try_emplace(
            lane.bytes, 0);
    if (is_new) {
      found->second =
          prices_.exchange(cluster_, lane.placement, lane.kind, static_cast<double>(lane.bytes));
    }
    return found->second;
  }

  void tell(RankState& rank) {
    if (std::exchange(rank.has_news, true)) return;
    news_.push_back(index_of(rank));
  }

  [[nodiscard]] std::uint32_t index_of(const RankState& rank) const {
    return static_cast<std::uint32_t>(&rank - state_.ranks.data());
  }

  static void add_span(RankState& rank, const Span& span) { rank.result.spans.push_back(span); }

  // After ---------------------------------------------------------------------------------------

  static ReplayedRank result_of(RankState& rank) {
    for (const StreamClock& stream : rank.streams) rank.end_with(stream.time, stream.cause);
    rank.end_with(rank.host_time, rank.host_cause);
    wait(rank, slot_of(StreamRole::kCompute), rank.last_end, rank.last_cause);
    ReplayedRank result = std::move(rank.result);
    result.seconds = rank.last_end;
    for (std::size_t name = 0; name < rank.tape->names.size(); ++name) {
      ReplayedPhase phase{.name = rank.tape->names[name]};
      double all = 0;
      for (std::size_t kind = 0; kind < kWorkKinds; ++kind) {
        phase.busy[kind] = rank.phase_busy[name * kWorkKinds + kind];
        result.busy[kind] += phase.busy[kind];
        all += phase.busy[kind];
      }
      if (all > 0) result.phases.push_back(std::move(phase));
    }
    for (std::size_t i = 0; i < result.exchanges.size(); ++i) {
      result.exchanges[i].waited = rank.waited[kFirstExchange + i];
    }
    result.for_a_stage = rank.waited[kStage];
    result.for_the_host = rank.waited[kHost];
    result.for_streams = std::accumulate(rank.waited.begin(), rank.waited.begin() + kHost, 0.0);
    return result;
  }

  /// An exchange that may begin: of two at one time, the one that has waited longer.
  struct Candidate {
    double begin;
    double asked;  // when it would have begun without others on its links
    std::uint32_t lane;
    auto operator<=>(const Candidate&) const = default;
  };

  const Cluster& cluster_;
  const Prices& prices_;
  WorkPrices work_price_;
  bool keeps_spans_;
  ReplayState state_;
  /// Of placements, by kind and bytes.
  std::vector<std::array<std::unordered_map<std::size_t, double>, gpu::kExchangeKinds>>
      known_prices_;
  std::vector<std::uint32_t> news_;  // ranks that may go on
  std::vector<DueItem> due_;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> waiting_;
};

}  // namespace

double ReplayedRank::for_exchanges() const {
  return std::accumulate(exchanges.begin(), exchanges.end(), 0.0,
                         [](double sum, const ReplayedExchanges& one) { return sum + one.waited; });
}

double ReplayedRank::work() const { return std::accumulate(busy.begin(), busy.end(), 0.0); }

std::vector<ReplayedRank> replay(std::span<const RankTape> ranks, const Prices& prices,
                                 Spans spans) {
  Replayer replayer(ranks, prices, spans);
  replayer.run();
  return replayer.take(ranks);
}

}  // namespace ultra::replay

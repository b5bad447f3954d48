#include "common/replay/replay_state.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "common/base/errors.hpp"
#include "common/base/text.hpp"

namespace ultra::replay {
namespace {

/// Makes the state before the first entry.
class StateMaker {
 public:
  StateMaker(std::span<const RankTape> tapes, int gpus_per_node) : gpus_per_node_(gpus_per_node) {
    std::vector<RankTape> sorted(tapes.begin(), tapes.end());
    std::ranges::sort(sorted, {}, &RankTape::rank);
    const auto twice = std::ranges::adjacent_find(sorted, {}, &RankTape::rank);
    if (twice != sorted.end()) {
      throw ConfigError(fmt::format(
          "The tape of rank {} is given twice. A rank can be replayed once: leave one out.",
          twice->rank));
    }
    for (const RankTape& one : sorted) add_rank(one);
    find_other_ends();
    for (Lane& lane : state_.lanes) {
      lane.recorded = static_cast<std::size_t>(std::ranges::count_if(
          lane.group->members, [&](int member) { return state_.is_recorded(member); }));
    }
  }

  ReplayState take() { return std::move(state_); }

 private:
  void add_rank(const RankTape& one) {
    const gpu::Tape& tape = *one.tape;
    RankState rank;
    rank.rank = rank.result.rank = one.rank;
    rank.tape = one.tape;
    const std::size_t items = tape.exchanges.size() + tape.messages.size();
    rank.when.assign(tape.events(), kUnknown);
    rank.when[0] = 0;
    rank.cause.assign(tape.events(), kHost);
    rank.first_item.assign(tape.events(), kNone);
    rank.next_item.assign(items, kNone);
    rank.issued.assign(items, kUnknown);
    rank.ready.assign(items, kUnknown);
    rank.other_end.resize(tape.messages.size());
    rank.phase_busy.assign(tape.names.size() * kWorkKinds, 0);
    for (std::size_t role = 0; role < rank.streams.size(); ++role) {
      rank.streams[role].cause = static_cast<std::uint32_t>(role);
    }
    add_lanes(rank);
    add_accounts(rank);
    state_.ranks.push_back(std::move(rank));
  }

  void add_lanes(RankState& rank) {
    const auto index = static_cast<std::uint32_t>(state_.ranks.size());
    const gpu::Tape& tape = *rank.tape;
    rank.head.assign(tape.groups.size(), kNone);
    rank.next_in_lane.assign(tape.exchanges.size(), kNone);
    for (std::size_t i = tape.exchanges.size(); i-- > 0;) {
      rank.next_in_lane[i] =
          std::exchange(rank.head[tape.exchanges[i].group], static_cast<std::uint32_t>(i));
    }
    for (std::uint32_t group = 0; group < tape.groups.size(); ++group) {
      rank.lane.push_back(lane_of(tape.groups[group]));
      state_.lanes[rank.lane.back()].members.push_back({index, group});
    }
  }

  std::uint32_t lane_of(const gpu::TapedGroup& group) {
    const auto [found, is_new] = lane_numbers_.try_emplace(
        std::tie(group.name, group.members), static_cast<std::uint32_t>(state_.lanes.size()));
    if (is_new) {
      const GroupPlacement placement = placement_of(group.members, gpus_per_node_);
      const auto same = std::ranges::find(state_.placements, placement);
      const auto place = static_cast<std::size_t>(same - state_.placements.begin());
      if (same == state_.placements.end()) state_.placements.push_back(placement);
      Lane& lane = state_.lanes.emplace_back();
      lane.group = &group;
      lane.placement = placement;
      lane.placement_index = place;
    }
    return found->second;
  }

  static void add_accounts(RankState& rank) {
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> known;
    for (const gpu::TapedExchange& exchange : rank.tape->exchanges) {
      const auto next = static_cast<std::uint32_t>(kFirstExchange + known.size());
      const auto [found, is_new] = known.try_emplace({exchange.group, exchange.label}, next);
      if (is_new) {
        ReplayedExchanges& sum = rank.result.exchanges.emplace_back();
        sum.group = rank.tape->groups[exchange.group].name;
        sum.label = rank.tape->names[exchange.label];
      }
      rank.account.push_back(found->second);
    }
    rank.waited.assign(kFirstExchange + known.size(), 0);
  }

  /// An end of a message between recorded ranks.
  struct End {
    std::tuple<std::uint32_t, int, int, std::uint64_t> key;  // lane, from, to, name
    std::uint32_t rank;
    std::uint32_t message;
  };

  void find_other_ends() {
    std::array<std::vector<End>, 2> ends;  // receives, sends
    for (std::uint32_t index = 0; index < state_.ranks.size(); ++index) {
      const RankState& rank = state_.ranks[index];
      for (std::uint32_t i = 0; i < rank.tape->messages.size(); ++i) {
        const gpu::TapedMessage& message = rank.tape->messages[i];
        if (!state_.is_recorded(message.peer)) continue;
        const int from = message.sends ? rank.rank : message.peer;
        const int to = message.sends ? message.peer : rank.rank;
        ends[message.sends ? 1 : 0].push_back(
            {{rank.lane[message.group], from, to, message.name}, index, i});
      }
    }
    for (std::vector<End>& side : ends) std::ranges::stable_sort(side, {}, &End::key);
    auto send = ends[1].begin();
    for (const End& receive : ends[0]) {
      while (send != ends[1].end() && send->key < receive.key) ++send;
      if (send == ends[1].end()) break;
      if (send->key != receive.key) continue;
      state_.ranks[receive.rank].other_end[receive.message] = {send->rank, send->message};
      state_.ranks[send->rank].other_end[send->message] = {receive.rank, receive.message};
      ++send;
    }
  }

  int gpus_per_node_;
  ReplayState state_;
  std::map<std::tuple<const std::string&, const std::vector<int>&>, std::uint32_t> lane_numbers_;
};

// What ranks wait for at the end ------------------------------------------------------------------

std::string shown(const ReplayState& state, const RankState& rank,
                  const gpu::TapedExchange& exchange) {
  const Lane& lane = state.lanes[rank.lane[exchange.group]];
  std::vector<int> missing;
  for (const RankState& other : state.ranks) {
    if (std::ranges::find(lane.group->members, other.rank) == lane.group->members.end()) continue;
    const auto own = std::ranges::find(other.lane, rank.lane[exchange.group]);
    const auto group = static_cast<std::size_t>(own - other.lane.begin());
    const std::uint32_t head = own == other.lane.end() ? kNone : other.head[group];
    if (head == kNone || other.ready[head] == kUnknown) missing.push_back(other.rank);
  }
  return fmt::format("{} number {} of the group {}, for which rank {} is not ready",
                     gpu::to_string(exchange.kind), exchange.sequence, in_quotes(lane.group->name),
                     fmt::join(missing, ", "));
}

/// What an event would end.
std::string shown(const ReplayState& state, const RankState& rank, gpu::EventId event) {
  const gpu::Tape& tape = *rank.tape;
  const auto exchange = std::ranges::find(tape.exchanges, event, &gpu::TapedExchange::end);
  if (exchange != tape.exchanges.end()) return shown(state, rank, *exchange);
  const auto message = std::ranges::find(tape.messages, event, &gpu::TapedMessage::end);
  if (message != tape.messages.end()) {
    return fmt::format("a message {} rank {} in the group {}", message->sends ? "to" : "from",
                       message->peer, in_quotes(tape.groups[message->group].name));
  }
  return fmt::format("event {}, which nothing on the tape has recorded", event);
}

/// Empty where the rank has come to its end.
std::string what_holds(const ReplayState& state, const RankState& rank) {
  const gpu::Tape& tape = *rank.tape;
  for (std::size_t role = 0; role < rank.streams.size(); ++role) {
    const std::size_t entry = rank.streams[role].entry;
    if (entry == rank.host_entry) continue;
    return fmt::format("on its {} stream waits for {}", gpu::to_string(gpu::kStreamRoles[role]),
                       shown(state, rank, tape.entries[entry].index));
  }
  if (rank.host_entry < tape.entries.size()) {
    const gpu::Entry& entry = tape.entries[rank.host_entry];
    return "on its host waits for " + (entry.kind == gpu::EntryKind::kHostWait
                                           ? shown(state, rank, entry.index)
                                           : shown(state, rank, tape.exchanges[entry.index]));
  }
  for (const std::uint32_t head : rank.head) {
    if (head != kNone) return "has issued " + shown(state, rank, tape.exchanges[head]);
  }
  return "";
}

}  // namespace

bool ReplayState::is_recorded(int rank) const {
  return std::ranges::binary_search(ranks, rank, {}, &RankState::rank);
}

ReplayState state_before(std::span<const RankTape> tapes, int gpus_per_node) {
  return StateMaker(tapes, gpus_per_node).take();
}

void expect_the_end(const ReplayState& state) {
  constexpr std::size_t kShown = 8;
  std::vector<std::string> stuck;
  for (const RankState& rank : state.ranks) {
    if (stuck.size() == kShown) {
      stuck.emplace_back("others too");
      break;
    }
    const std::string what = what_holds(state, rank);
    if (!what.empty()) stuck.push_back(fmt::format("rank {} {}", rank.rank, what));
  }
  if (stuck.empty()) return;
  throw ConfigError(fmt::format(
      "The step never ends: its ranks wait for each other. {}. Each receive needs a send that is "
      "issued before what waits for it, and all members of a group must issue its exchanges in "
      "one order.",
      fmt::join(stuck, "; ")));
}

}  // namespace ultra::replay

#include "tests/support/contracts/collective_trial.hpp"

#include <fmt/ranges.h>

#include <cstring>

#include "tests/support/toolbox.hpp"

namespace ultra::test {
namespace {

using comm::Chunks;
using comm::Group;
using comm::Lane;
using comm::Schedule;
using ::testing::AssertionFailure;
using ::testing::AssertionResult;
using ::testing::AssertionSuccess;

constexpr int kMostCounted = 16;         // members whose digits of base 8 fit into a double
constexpr double kOwner = 1 << 20;       // between the codes of two owners
constexpr double kUnset = -(1LL << 45);  // what no message has reached

std::size_t index_of(int i) { return static_cast<std::size_t>(i); }

/// A number that names its owner and its place there.
double owned(int owner, std::size_t element) {
  return kOwner * (owner + 1) + static_cast<double>(element);
}

std::string explain_owned(double value) {
  if (std::isnan(value)) return "scratch memory that nobody has written";
  if (value == kUnset) return "what it held before: no message has reached it";
  if (value < 0) return "a message combined with what was there before, instead of overwriting it";
  const int owner = static_cast<int>(value / kOwner) - 1;
  return fmt::format("element {} of position {}", value - kOwner * (owner + 1), owner);
}

}  // namespace

MakeSchedule one_lane(const MakeLane& make) {
  return [make](const Group& group) { return Schedule{.lanes = {make(group)}}; };
}

Members whole_world(int size) {
  Members members{.ranks = std::vector<int>(index_of(size)), .world_size = size};
  std::iota(members.ranks.begin(), members.ranks.end(), 0);
  return members;
}

Members scattered(Random& random, int size) {
  Members members = whole_world(size + 2);
  random.shuffle(members.ranks);
  members.ranks.resize(index_of(size));
  return members;
}

CollectiveTrial::CollectiveTrial(Members members, const MakeSchedule& make)
    : members_(std::move(members)), schedules_(index_of(members_.world_size)) {
  for (int position = 0; position < members_.size(); ++position) {
    schedules_[index_of(members_.ranks[index_of(position)])] =
        make({.ranks = members_.ranks, .rank = position});
  }
}

std::size_t CollectiveTrial::sent(int position) const {
  return run_.sent[index_of(members_.ranks[index_of(position)])];
}

int CollectiveTrial::position_of(int rank) const {
  const auto found = std::find(members_.ranks.begin(), members_.ranks.end(), rank);
  return found == members_.ranks.end() ? comm::kNobody
                                       : static_cast<int>(found - members_.ranks.begin());
}

std::size_t CollectiveTrial::sent_to(int position,
                                     const std::function<bool(int peer)>& counts) const {
  std::size_t elements = 0;
  for (const Lane& lane : schedule(position).lanes) {
    for (const comm::Round& step : lane) {
      const int peer = step.send_to == comm::kNobody ? position : position_of(step.send_to);
      if (peer != position && counts(peer)) elements += step.send.range.size();
    }
  }
  return elements;
}

const std::vector<double>& CollectiveTrial::data(int position) const {
  return run_.data[index_of(members_.ranks[index_of(position)])];
}

const Schedule& CollectiveTrial::schedule(int position) const {
  return schedules_[index_of(members_.ranks[index_of(position)])];
}

std::string CollectiveTrial::name_of(int position) const {
  const int rank = members_.ranks[index_of(position)];
  return members_.world_size == members_.size()
             ? fmt::format("rank {}", rank)
             : fmt::format("position {} (rank {})", position, rank);
}

std::vector<CollectiveTrial::Expected> CollectiveTrial::everywhere(Range elements) const {
  std::vector<Expected> places;
  for (int position = 0; position < members_.size(); ++position) {
    places.push_back({position, elements});
  }
  return places;
}

AssertionResult CollectiveTrial::run(std::size_t count, const Values& values) {
  std::vector<RankBuffers<double>> buffers(schedules_.size());
  for (int position = 0; position < members_.size(); ++position) {
    std::vector<double>& data = buffers[index_of(members_.ranks[index_of(position)])].data;
    for (std::size_t i = 0; i < count; ++i) data.push_back(values(position, i));
  }
  run_ = interpret<double>(schedules_, std::move(buffers));
  return run_.fault == Fault::kNone ? AssertionSuccess() : AssertionFailure() << run_.message;
}

AssertionResult CollectiveTrial::holds(const std::vector<Expected>& places, const Values& expected,
                                       const std::function<std::string(double)>& explain) {
  for (const auto& [position, elements] : places) {
    for (std::size_t i = elements.begin; i < elements.end; ++i) {
      const double found = data(position)[i];
      const double wanted = expected(position, i);
      if (found != wanted) {
        return AssertionFailure() << fmt::format("{} ends with element {} being {}; expected {}",
                                                 name_of(position), i, explain(found),
                                                 explain(wanted));
      }
    }
  }
  return AssertionSuccess();
}

AssertionResult CollectiveTrial::moves(std::size_t count, const Values& values,
                                       const std::vector<Expected>& places,
                                       const Values& expected) {
  const AssertionResult ran = run(count, values);
  return ran ? holds(places, expected, explain_owned) : ran;
}

std::vector<int> CollectiveTrial::contributions(double value) const {
  std::vector<int> counts(members_.ranks.size(), 0);
  for (int& count : counts) {
    count = static_cast<int>(std::fmod(value, 8.0));
    value = std::floor(value / 8.0);
  }
  return counts;
}

std::string CollectiveTrial::explain_sum(double value) const {
  if (std::isnan(value)) return "scratch memory that nobody has written";
  const std::vector<int> counts = contributions(value);
  if (std::all_of(counts.begin(), counts.end(), [](int count) { return count == 1; })) {
    return "the sum of all contributions, each once";
  }
  std::vector<std::string> parts;
  for (std::size_t p = 0; p < counts.size(); ++p) {
    if (counts[p] == 1) parts.push_back(fmt::format("{}", p));
    if (counts[p] > 1) parts.push_back(fmt::format("{} ({} times)", p, counts[p]));
  }
  return fmt::format("the sum of the contributions of {} {}",
                     in_whole_world() ? "ranks" : "positions", fmt::join(parts, " + "));
}

AssertionResult CollectiveTrial::reduces(std::size_t count, const std::vector<Expected>& places) {
  const int size = members_.size();
  if (AssertionResult ran = run(count,
                                [&](int position, std::size_t) {
                                  return size <= kMostCounted ? std::pow(8.0, position) : 1.0;
                                });
      !ran) {
    return ran;
  }
  const double once = size <= kMostCounted ? (std::pow(8.0, size) - 1.0) / 7.0 : size;
  const AssertionResult who = holds(
      places, [&](int, std::size_t) { return once; },
      [&](double value) {
        return size <= kMostCounted ? explain_sum(value) : fmt::format("{}", value);
      });
  if (!who) return who;
  // All contributions are there; now each in its place.
  const std::vector<std::vector<double>> counted = run_.data;
  if (AssertionResult ran = run(count, owned); !ran) return ran;
  AssertionResult in_place = holds(
      places,
      [&](int, std::size_t i) {
        return kOwner * size * (size + 1) / 2 + static_cast<double>(i) * size;
      },
      [&](double value) {
        return fmt::format("a sum of elements whose places average {}",
                           (value - kOwner * size * (size + 1) / 2) / size);
      });
  if (!in_place) return in_place;
  run_.data = counted;  // for contributions()
  return in_place;
}

AssertionResult CollectiveTrial::all_reduce(std::size_t count) {
  return reduces(count, everywhere({0, count}));
}

AssertionResult CollectiveTrial::reduce(std::size_t count, int root) {
  return reduces(count, {{root, {0, count}}});
}

AssertionResult CollectiveTrial::reduce_scatter(const Chunks& chunks) {
  std::vector<Expected> places;
  for (int p = 0; p < members_.size(); ++p) places.push_back({p, chunks[p]});
  return reduces(chunks.whole().end, places);
}

AssertionResult CollectiveTrial::broadcast(std::size_t count, int root) {
  return moves(
      count, [&](int p, std::size_t i) { return p == root ? owned(p, i) : kUnset; },
      everywhere({0, count}), [&](int, std::size_t i) { return owned(root, i); });
}

AssertionResult CollectiveTrial::gather(const Chunks& chunks, int root) {
  const auto owner_of = [&](std::size_t i) {
    int owner = 0;
    while (i >= chunks[owner].end) ++owner;
    return owner;
  };
  return moves(
      chunks.whole().end,
      [&](int p, std::size_t i) { return owner_of(i) == p ? owned(p, i) : kUnset; },
      {{root, chunks.whole()}}, [&](int, std::size_t i) { return owned(owner_of(i), i); });
}

AssertionResult CollectiveTrial::all_gather(const Chunks& chunks) {
  for (int root = 0; root < members_.size(); ++root) {
    if (AssertionResult at_root = gather(chunks, root); !at_root) return at_root;
  }
  return AssertionSuccess();
}

AssertionResult CollectiveTrial::scatter(const Chunks& chunks, int root) {
  std::vector<Expected> places;
  for (int p = 0; p < members_.size(); ++p) places.push_back({p, chunks[p]});
  return moves(
      chunks.whole().end, [&](int p, std::size_t i) { return p == root ? owned(p, i) : kUnset; },
      places, [&](int, std::size_t i) { return owned(root, i); });
}

AssertionResult CollectiveTrial::all_to_all(const std::vector<std::vector<std::size_t>>& counts) {
  const auto column = [&](int to) {
    std::vector<std::size_t> from_each;
    for (const std::vector<std::size_t>& row : counts) from_each.push_back(row[index_of(to)]);
    return from_each;
  };
  std::vector<RankBuffers<double>> buffers(schedules_.size());
  for (int p = 0; p < members_.size(); ++p) {
    RankBuffers<double>& own = buffers[index_of(members_.ranks[index_of(p)])];
    own.data.assign(Chunks::of(column(p)).whole().end, kUnset);
    const std::size_t sent = Chunks::of(counts[index_of(p)]).whole().end;
    for (std::size_t i = 0; i < sent; ++i) own.input.push_back(owned(p, i));
  }
  run_ = interpret<double>(schedules_, std::move(buffers));
  if (run_.fault != Fault::kNone) return AssertionFailure() << run_.message;
  for (int from = 0; from < members_.size(); ++from) {
    for (int to = 0; to < members_.size(); ++to) {
      const Range sent = Chunks::of(counts[index_of(from)])[to];
      const Range received = Chunks::of(column(to))[from];
      const AssertionResult chunk = holds(
          {{to, received}},
          [&](int, std::size_t i) { return owned(from, sent.begin + (i - received.begin)); },
          explain_owned);
      if (!chunk) return chunk;
    }
  }
  return AssertionSuccess();
}

AssertionResult CollectiveTrial::barrier() {
  if (AssertionResult ran = run(1, owned); !ran) return ran;
  // Whom a position has heard of: its senders' knowledge reaches it with their messages. Rounds of
  // a barrier are its steps, so step s of all ranks together is round s.
  std::vector<std::vector<bool>> knows(schedules_.size(), std::vector<bool>(schedules_.size()));
  for (std::size_t rank = 0; rank < knows.size(); ++rank) knows[rank][rank] = true;
  for (std::size_t s = 0; s < index_of(run_.rounds); ++s) {
    const std::vector<std::vector<bool>> before = knows;
    for (std::size_t rank = 0; rank < knows.size(); ++rank) {
      const std::vector<Lane>& lanes = schedules_[rank].lanes;
      if (lanes.empty() || s >= lanes.front().size()) continue;
      const int from = lanes.front()[s].receive_from;
      if (from == comm::kNobody) continue;
      for (std::size_t other = 0; other < knows.size(); ++other) {
        if (before[index_of(from)][other]) knows[rank][other] = true;
      }
    }
  }
  for (const int rank : members_.ranks) {
    for (const int other : members_.ranks) {
      if (!knows[index_of(rank)][index_of(other)]) {
        return AssertionFailure() << fmt::format(
                   "rank {} may end before rank {} has begun: no message links them", rank, other);
      }
    }
  }
  return AssertionSuccess();
}

AssertionResult CollectiveTrial::same_bits_everywhere(std::size_t count, Random& random) {
  std::vector<RankBuffers<float>> buffers(schedules_.size());
  for (const int rank : members_.ranks) {
    std::vector<float>& data = buffers[index_of(rank)].data;
    for (std::size_t i = 0; i < count; ++i) data.push_back(static_cast<float>(random.normal()));
  }
  const Interpretation<float> result = interpret<float>(schedules_, std::move(buffers));
  if (result.fault != Fault::kNone) return AssertionFailure() << result.message;
  const std::vector<float>& first = result.data[index_of(members_.ranks.front())];
  for (int p = 1; p < members_.size(); ++p) {
    const std::vector<float>& own = result.data[index_of(members_.ranks[index_of(p)])];
    for (std::size_t i = 0; i < count; ++i) {
      if (std::memcmp(&own[i], &first[i], sizeof(float)) != 0) {
        return AssertionFailure() << fmt::format(
                   "element {} differs between {} and {}: {} and {}. All members must end with the "
                   "same bits: reduce each element in one place, or in the same order everywhere",
                   i, name_of(0), name_of(p), first[i], own[i]);
      }
    }
  }
  return AssertionSuccess();
}

std::string hint_for_stuck(const CollectiveTrial& trial) {
  if (!trial.in_whole_world()) {
    return "\nHint: in a group that is a part of the world, positions and ranks differ. A step "
           "names ranks: group.at(position).";
  }
  if (trial.fault() == Fault::kRace) {
    return "\nHint: a step sends and receives at the same time, so the two blocks must not "
           "overlap.";
  }
  if (trial.fault() != Fault::kDeadlock) return "";
  bool all_send_alone = true;
  for (int p = 0; p < trial.size(); ++p) {
    const std::vector<Lane>& lanes = trial.schedule(p).lanes;
    all_send_alone = all_send_alone && !lanes.empty() && !lanes.front().empty() &&
                     lanes.front().front().send_to != comm::kNobody &&
                     lanes.front().front().receive_from == comm::kNobody;
  }
  if (all_send_alone) {
    return "\nHint: every rank sends first and receives afterwards. A send ends when it has been "
           "received, so all wait forever: put both into one step, which does them at the same "
           "time.";
  }
  return "\nHint: for every send there must be a receive on the other side, in a step that is "
         "reached: if a sends to b, then b receives from a.";
}

std::vector<std::size_t> counts_for(int size, Random& random) {
  const std::size_t p = index_of(size);
  return {2 * p, p, 31, 1000 + random.between(0, 100), p - 1, 1, 0, random.between(0, 5 * p)};
}

void for_trial_cases(Random& random, std::span<const int> sizes,
                     const std::function<void(const TrialCase&)>& check) {
  for (const int size : sizes) {
    for (const Members& members : {whole_world(size), scattered(random, size)}) {
      for (const std::size_t count : counts_for(size, random)) {
        SCOPED_TRACE(fmt::format("{} elements; {} members, ranks {} of a world of {}", count, size,
                                 fmt::join(members.ranks, " "), members.world_size));
        check({members, count});
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

Chunks random_chunks(Random& random, int parts) {
  std::vector<std::size_t> counts;
  for (int i = 0; i < parts; ++i) counts.push_back(random.between(0, 6));
  return Chunks::of(counts);
}

Chunks chunks_for(const TrialCase& c, Random& random) {
  const int size = c.members.size();
  const bool divides = c.count % index_of(size) == 0;
  return divides || random.between(0, 1) == 0 ? Chunks::even({0, c.count}, size)
                                              : random_chunks(random, size);
}

}  // namespace ultra::test

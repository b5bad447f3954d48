// Random steps of a few nodes against dates that are found while they are written, and what holds of
// every replay.

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>

#include "common/replay/replay.hpp"
#include "tests/common/replay/tape_writer.hpp"
#include "tests/support/random.hpp"

namespace ultra::replay {
namespace {

using namespace test;  // NOLINT: what tapes are written with

/// Writes a step of several ranks in an order in which it could happen, and with each thing its date:
/// of exchanges, as if each group had links of its own.
class RandomStep {
 public:
  RandomStep(ultra::test::Random& random, int nodes, int gpus_per_node)
      : random_(random), gpus_per_node_(gpus_per_node) {
    for (int rank = 0; rank < nodes * gpus_per_node; ++rank) {
      writers.emplace_back(rank);
      dates_.emplace_back();
    }
    for (int node = 0; node < nodes; ++node) {
      TapedGroup group{.name = "node", .members = {}};
      for (int i = 0; i < gpus_per_node; ++i) group.members.push_back(node * gpus_per_node + i);
      groups_.push_back(group);
    }
    for (int i = 0; i < gpus_per_node; ++i) {
      TapedGroup group{.name = "nodes", .members = {}};
      for (int node = 0; node < nodes; ++node) group.members.push_back(node * gpus_per_node + i);
      groups_.push_back(group);
    }
  }

  /// Groups that share their links with others.
  void add_group(TapedGroup group) { groups_.push_back(std::move(group)); }

  void write(std::size_t things) {
    for (std::size_t i = 0; i < things; ++i) write_one();
  }

  /// When the rank has ended.
  [[nodiscard]] double end_of(std::size_t rank) const {
    const Dates& dates = dates_[rank];
    return std::max({dates.host, dates.last, *std::ranges::max_element(dates.streams)});
  }
  [[nodiscard]] double worked(std::size_t rank, std::size_t role) const {
    return dates_[rank].worked[role];
  }

  std::vector<TapeWriter> writers;

 private:
  struct Dates {
    double host = 0;
    std::array<double, 3> streams{};
    std::array<double, 3> worked{};
    double last = 0;  // of exchanges and receives
    std::vector<EventId> events{0};
    std::map<EventId, double> when{{0, 0.0}};

    void add(EventId event, double time) {
      events.push_back(event);
      when[event] = time;
    }
  };

  EventId some_event(const Dates& dates) {
    // Rather a late one.
    const std::size_t count = dates.events.size();
    return dates.events[random_.between(count - std::min<std::size_t>(count, 6), count - 1)];
  }

  std::pair<EventId, double> record(std::size_t rank, std::size_t role) {
    Dates& dates = dates_[rank];
    const EventId event = writers[rank].record(gpu::kStreamRoles[role]);
    dates.add(event, std::max(dates.host, dates.streams[role]));
    return {event, dates.when[event]};
  }

  void write_one() {
    const std::size_t rank = random_.between(0, writers.size() - 1);
    const std::size_t role = random_.between(0, 2);
    Dates& dates = dates_[rank];
    const std::size_t what = random_.between(0, 19);
    if (what < 8) {
      const std::size_t seconds = random_.between(0, 9);
      writers[rank].work(seconds, gpu::kStreamRoles[role]);
      dates.streams[role] =
          std::max(dates.streams[role], dates.host) + static_cast<double>(seconds);
      dates.worked[role] += static_cast<double>(seconds);
    } else if (what < 12) {
      const EventId event = some_event(dates);
      writers[rank].wait(event, gpu::kStreamRoles[role]);
      dates.streams[role] = std::max(dates.streams[role], dates.when[event]);
    } else if (what < 14) {
      record(rank, role);
    } else if (what < 15) {
      const EventId event = some_event(dates);
      writers[rank].host_wait(event);
      dates.host = std::max(dates.host, dates.when[event]);
    } else if (what < 18) {
      write_exchange();
    } else {
      write_message(rank, role);
    }
  }

  void write_exchange() {
    const std::size_t index = random_.between(0, groups_.size() - 1);
    const TapedGroup& group = groups_[index];
    const std::size_t seconds = random_.between(0, 9);
    const bool of_host = random_.between(0, 7) == 0;
    double begin = lane_free_[index];
    std::vector<EventId> ends;
    for (const int member : group.members) {
      const auto rank = static_cast<std::size_t>(member);
      const auto [event, when] = record(rank, random_.between(0, 2));
      begin = std::max({begin, when, dates_[rank].host});
      ends.push_back(writers[rank].exchange(group, seconds, event, "random", of_host));
    }
    const double end = begin + static_cast<double>(seconds);
    lane_free_[index] = end;
    for (std::size_t i = 0; i < ends.size(); ++i) {
      Dates& dates = dates_[static_cast<std::size_t>(group.members[i])];
      dates.add(ends[i], end);
      dates.last = std::max(dates.last, end);
      if (of_host) dates.host = std::max(dates.host, end);
    }
  }

  void write_message(std::size_t from, std::size_t role) {
    const std::size_t to = random_.between(0, writers.size() - 1);
    if (from == to) return;
    const std::size_t seconds = random_.between(0, 9);
    const std::size_t name = random_.between(0, 2);
    const auto [sent, sent_when] = record(from, role);
    writers[from].send(static_cast<int>(to), name, seconds, sent);
    const EventId ready = some_event(dates_[to]);
    const EventId end = writers[to].receive(static_cast<int>(from), name, seconds, ready);
    const double begin =
        std::max({sent_when, dates_[from].host, dates_[to].when[ready], dates_[to].host});
    dates_[to].add(end, begin + static_cast<double>(seconds));
    dates_[to].last = std::max(dates_[to].last, begin + static_cast<double>(seconds));
  }

  ultra::test::Random& random_;
  int gpus_per_node_;
  std::vector<Dates> dates_;
  std::vector<TapedGroup> groups_;
  std::map<std::size_t, double> lane_free_;
};

class RandomReplay : public ultra::test::RandomTest {
 protected:
  static constexpr int kRounds = 20;

  RandomStep step(int gpus_per_node) { return {random, nodes_, gpus_per_node}; }

  std::vector<ReplayedRank> replayed(const RandomStep& step, int gpus_per_node) {
    return replay(tapes_of(step.writers), unit_prices(unit_cluster(gpus_per_node)), Spans::kKept);
  }

  /// None begins before the one before it has ended.
  static void expect_no_overlap(std::vector<Span> spans, std::string_view what) {
    std::ranges::sort(spans, {}, [](const Span& span) { return std::pair(span.begin, span.end); });
    for (std::size_t i = 1; i < spans.size(); ++i) {
      EXPECT_GE(spans[i].begin, spans[i - 1].end) << what;
    }
  }
  template <class Wanted>
  static std::vector<Span> spans_where(const ReplayedRank& rank, Wanted wanted) {
    std::vector<Span> found;
    std::ranges::copy_if(rank.spans, std::back_inserter(found), wanted);
    return found;
  }

  int nodes_ = static_cast<int>(random.between(2, 4));
};

TEST_F(RandomReplay, DatesAreThoseOfTheOrderInWhichItCouldHappen) {
  for (int round = 0; round < kRounds; ++round) {
    // One group on each kind of link: nothing else shares them.
    const int gpus = static_cast<int>(random.between(2, 3));
    RandomStep written = step(gpus);
    written.write(random.between(1, 400));
    const auto found = replayed(written, gpus);
    for (std::size_t rank = 0; rank < found.size(); ++rank) {
      EXPECT_EQ(found[rank].rank, static_cast<int>(rank));
      EXPECT_EQ(found[rank].seconds, written.end_of(rank)) << rank;
    }
  }
}

TEST_F(RandomReplay, SharedLinks) {
  for (int round = 0; round < kRounds; ++round) {
    const int gpus = 4;
    RandomStep written = step(gpus);
    written.add_group({.name = "pair", .members = {0, 1}});
    written.add_group({.name = "other pair", .members = {1, 2}});
    written.add_group({.name = "corner", .members = {0, 1, 4, 5}});
    written.write(random.between(1, 400));
    for (const ReplayedRank& rank : replayed(written, gpus)) {
      const auto index = static_cast<std::size_t>(rank.rank);
      EXPECT_GE(rank.seconds, written.end_of(index)) << "sharing makes nothing faster";
      for (std::size_t role = 0; role < 3; ++role) {
        EXPECT_GE(rank.seconds, written.worked(index, role));
        const std::string_view name = gpu::to_string(gpu::kStreamRoles[role]);
        expect_no_overlap(spans_where(rank, [&](const Span& span) { return span.track == name; }),
                          name);
      }
      expect_no_overlap(spans_where(rank,
                                    [](const Span& span) {
                                      return span.track == "node" || span.track == "pair" ||
                                             span.track == "other pair";
                                    }),
                        "in the node");
      expect_no_overlap(spans_where(rank,
                                    [](const Span& span) {
                                      return span.track == "nodes" || span.track == "corner";
                                    }),
                        "through the NIC");
      EXPECT_EQ(rank.work(), written.worked(index, 0));
      EXPECT_DOUBLE_EQ(accounted(rank), rank.seconds) << "what is waited for is booked";
    }
  }
}

TEST_F(RandomReplay, TheOrderOfTheTapesChangesNothing) {
  RandomStep written = step(4);
  written.add_group({.name = "pair", .members = {0, 1}});
  written.write(1000);
  std::vector<RankTape> tapes = tapes_of(written.writers);
  const auto before = replay(tapes, unit_prices(unit_cluster(4)));
  for (std::size_t i = tapes.size(); i-- > 1;) std::swap(tapes[i], tapes[random.between(0, i)]);
  const auto after = replay(tapes, unit_prices(unit_cluster(4)));
  for (const ReplayedRank& rank : after) {
    const ReplayedRank& same = before[static_cast<std::size_t>(rank.rank)];
    EXPECT_EQ(rank.seconds, same.seconds);
    EXPECT_EQ(rank.for_exchanges(), same.for_exchanges());
    EXPECT_EQ(rank.for_a_stage, same.for_a_stage);
    EXPECT_EQ(rank.for_the_host, same.for_the_host);
  }
}

TEST_F(RandomReplay, AFasterMachineIsNotSlowerWithoutSharedLinks) {
  RandomStep written = step(2);
  written.write(500);
  Prices twice = unit_prices(unit_cluster(2));
  const auto slow = replay(tapes_of(written.writers), twice);
  twice.cluster.gpu.memory_bandwidth = twice.cluster.intra.bandwidth = 2;
  twice.cluster.inter.bandwidth = 2;
  twice.exchange = [](const auto&, const auto&, ExchangeKind, double bytes) { return bytes / 2; };
  const auto fast = replay(tapes_of(written.writers), twice);
  for (std::size_t i = 0; i < slow.size(); ++i) {
    EXPECT_EQ(2 * fast[i].seconds, slow[i].seconds) << "all halved: half of it";
  }
}

// Pipelines of recorded stages, made of messages: their bubble is a closed form.

using namespace test;  // NOLINT: what tapes are written with

/// Stages of a pipeline, each of which gives every micro-batch the same times.
struct Pipeline {
  std::size_t stages;
  std::size_t micro_batches;
  std::size_t forward;
  std::size_t backward;

  void pass(TapeWriter& rank, std::size_t stage, std::size_t micro_batch, bool is_forward) const {
    const bool receives = is_forward ? stage > 0 : stage + 1 < stages;
    const bool sends = is_forward ? stage + 1 < stages : stage > 0;
    const int here = static_cast<int>(stage);
    const int before = is_forward ? here - 1 : here + 1;
    const int behind = is_forward ? here + 1 : here - 1;
    if (receives) rank.wait(rank.receive(before, micro_batch, 0));
    rank.work(is_forward ? forward : backward);
    if (sends) rank.send(behind, micro_batch, 0, rank.record());
  }

  /// @param most_forward  passes before the first backward pass of a stage, where there are as many.
  [[nodiscard]] std::vector<TapeWriter> ranks(
      const std::function<std::size_t(std::size_t stage)>& most_forward) const {
    std::vector<TapeWriter> all;
    for (std::size_t stage = 0; stage < stages; ++stage) {
      TapeWriter& rank = all.emplace_back(static_cast<int>(stage));
      const std::size_t first = std::min(most_forward(stage), micro_batches);
      for (std::size_t i = 0; i < first; ++i) pass(rank, stage, i, true);
      for (std::size_t i = 0; i < micro_batches; ++i) {
        pass(rank, stage, i, false);
        if (first + i < micro_batches) pass(rank, stage, first + i, true);
      }
    }
    return all;
  }
};

class PipelineReplay : public ultra::test::RandomTest {
 protected:
  const Pipeline pipeline_{.stages = random.between(1, 8),
                           .micro_batches = random.between(1, 20),
                           .forward = random.between(1, 9),
                           .backward = random.between(1, 9)};

  void expect_the_bubble(const std::vector<TapeWriter>& ranks) const {
    const auto [p, m, f, b] = pipeline_;
    const double total = static_cast<double>((m + p - 1) * (f + b));
    const auto found = replay(tapes_of(ranks), unit_prices());
    for (std::size_t stage = 0; stage < p; ++stage) {
      // A stage is done when those before it have only the last gradient's way left.
      EXPECT_EQ(found[stage].seconds, total - static_cast<double>(stage * b)) << stage;
      EXPECT_EQ(found[stage].work(), static_cast<double>(m * (f + b)));
      EXPECT_EQ(found[stage].for_a_stage, found[stage].seconds - found[stage].work());
    }
    EXPECT_DOUBLE_EQ(found[0].for_a_stage / total,
                     static_cast<double>(p - 1) / static_cast<double>(m + p - 1));
  }
};

TEST_F(PipelineReplay, AllForwardThenAllBackward) {
  expect_the_bubble(pipeline_.ranks([&](std::size_t) { return pipeline_.micro_batches; }));
}

TEST_F(PipelineReplay, OneForwardOneBackward) {
  expect_the_bubble(pipeline_.ranks([&](std::size_t stage) { return pipeline_.stages - stage; }));
}

TEST_F(PipelineReplay, AStageAloneHasNoBubble) {
  const auto ranks = pipeline_.ranks([&](std::size_t stage) { return pipeline_.stages - stage; });
  const RankTape tape = ranks.back().taped();
  const ReplayedRank found = replay({&tape, 1}, unit_prices()).front();
  EXPECT_EQ(found.seconds, found.work()) << "all that it receives is as early as it is";
}

}  // namespace
}  // namespace ultra::replay

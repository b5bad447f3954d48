// Tapes by hand, whose times are closed forms.
//
// Covers: common/replay/replay_state.hpp
#include "common/replay/replay.hpp"

#include "tests/common/replay/tape_writer.hpp"
#include "tests/support/expect_message.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::replay {
namespace {

using namespace test;  // NOLINT: what tapes are written with

class ReplayTest : public ultra::test::RandomTest {
 protected:
  [[nodiscard]] std::size_t seconds(std::size_t most = 20) { return random.between(1, most); }
  [[nodiscard]] std::vector<std::size_t> some_seconds(std::size_t count) {
    std::vector<std::size_t> all(count);
    for (std::size_t& one : all) one = seconds();
    return all;
  }
  static ReplayedRank alone(const TapeWriter& rank, const Prices& prices = unit_prices()) {
    const RankTape tape = rank.taped();
    return replay({&tape, 1}, prices, Spans::kKept).front();
  }
  static const Span& span_of(const ReplayedRank& rank, std::string_view name) {
    return *std::ranges::find(rank.spans, name, &Span::name);
  }

  const TapedGroup node_{.name = "node", .members = {0, 1}};
  const TapedGroup other_node_{.name = "other", .members = {0, 2}};
  const TapedGroup nodes_{.name = "nodes", .members = {0, 8}};
};

double sum(const std::vector<std::size_t>& values, std::size_t from, std::size_t to) {
  return static_cast<double>(std::accumulate(values.begin() + static_cast<std::ptrdiff_t>(from),
                                             values.begin() + static_cast<std::ptrdiff_t>(to),
                                             std::size_t{0}));
}

double real(std::size_t value) { return static_cast<double>(value); }

TEST_F(ReplayTest, WorkOfAllKindsFollowsEachOther) {
  TapeWriter rank(0);
  std::array<double, kWorkKinds> busy{};
  for (std::size_t i = 0; i < 100; ++i) {
    const std::size_t m = seconds(), k = seconds(), n = seconds();
    rank.tape().set_phase(i % 2 == 0 ? "even" : "odd");
    rank.tape().add(kCompute, {.kind = WorkKind::kProduct, .m = m, .k = k, .n = n});
    busy[0] += 2 * real(m * k * n);
    rank.tape().add(kCompute,
                    {.kind = WorkKind::kElementwise, .read_bytes = m, .written_bytes = k});
    busy[2] += real(m + k);
    rank.tape().add(kCompute, {.kind = WorkKind::kHostCopy, .read_bytes = n});
    busy[4] += real(n);
  }
  const ReplayedRank found = alone(rank);
  EXPECT_EQ(found.busy, busy);
  EXPECT_EQ(found.seconds, busy[0] + busy[2] + busy[4]);
  EXPECT_EQ(found.work(), found.seconds);
  ASSERT_EQ(found.phases.size(), 2U);
  EXPECT_EQ(found.phases[0].name, "even");
  EXPECT_EQ(found.phases[0].busy[2] + found.phases[1].busy[2], busy[2]);
}

TEST_F(ReplayTest, TwoStreamsMeetAtEvents) {
  const std::size_t a = seconds(), b = seconds(), c = seconds(), d = seconds();
  TapeWriter rank(0);
  rank.work(a);
  rank.wait(rank.record(), kCommunication);
  rank.work(b, kCommunication);
  const EventId there = rank.record(kCommunication);
  rank.work(c);
  rank.wait(there);
  rank.work(d);
  const ReplayedRank found = alone(rank);
  EXPECT_EQ(found.seconds, real(a + std::max(b, c) + d));
  EXPECT_EQ(found.for_streams, real(std::max(b, c) - c));
  EXPECT_EQ(found.work(), real(a + c + d));
}

/// Gradients of a layer after the other, each summed while those of the next are computed.
TEST_F(ReplayTest, BucketsAreExposedWhereTheyEndAfterTheWork) {
  const std::size_t buckets = random.between(1, 30);
  const std::vector<std::size_t> work = some_seconds(buckets), exchange = some_seconds(buckets);
  TapeWriter rank(0);
  std::vector<EventId> ends;
  for (std::size_t i = 0; i < buckets; ++i) {
    rank.work(work[i]);
    ends.push_back(rank.exchange(node_, exchange[i], rank.record(), "bucket"));
  }
  for (const EventId end : ends) rank.wait(end);
  // The last one ends behind a bucket that began at once, and all that follow it.
  double last = 0;
  for (std::size_t i = 0; i < buckets; ++i) {
    last = std::max(last, sum(work, 0, i + 1) + sum(exchange, i, buckets));
  }
  const ReplayedRank found = alone(rank);
  EXPECT_EQ(found.seconds, last);
  ASSERT_EQ(found.exchanges.size(), 1U);
  EXPECT_EQ(found.exchanges[0].group, "node");
  EXPECT_EQ(found.exchanges[0].label, "bucket");
  EXPECT_EQ(found.exchanges[0].times, buckets);
  EXPECT_EQ(found.exchanges[0].sent_bytes, 2 * sum(exchange, 0, buckets));
  EXPECT_EQ(found.exchanges[0].seconds, sum(exchange, 0, buckets));
  EXPECT_EQ(found.exchanges[0].waited, last - sum(work, 0, buckets));
}

TEST_F(ReplayTest, AGroupsExchangesFollowEachOtherAndNothingElseWaits) {
  TapeWriter rank(0);
  rank.exchange(node_, 10, 0, "first");
  rank.exchange(node_, 5, 0, "second");
  rank.exchange(nodes_, 7, 0, "between nodes");
  rank.exchange({.name = "alone", .members = {0}}, 3, 0, "of one");
  const ReplayedRank found = alone(rank);
  EXPECT_EQ(span_of(found, "second").begin, 10);
  EXPECT_EQ(span_of(found, "between nodes").begin, 0) << "through the NIC";
  EXPECT_EQ(span_of(found, "of one").begin, 0) << "on no link";
  EXPECT_EQ(found.seconds, 15) << "nobody waits for it, but the step ends behind it";
  EXPECT_EQ(found.exchanges[1].waited, 15) << "the end is a wait for what ends last";
}

TEST_F(ReplayTest, ARankHoldsOneExchangeOnItsLinks) {
  TapeWriter rank(0);
  for (int i = 0; i < 5; ++i) rank.exchange(node_, 10, 0, "queued");
  rank.work(3);
  const EventId end = rank.exchange(other_node_, 2, rank.record(), "urgent");
  rank.wait(end);
  rank.work(1);
  const ReplayedRank found = alone(rank);
  EXPECT_EQ(span_of(found, "urgent").begin, 10) << "behind the one that has begun, not all of them";
  EXPECT_EQ(found.seconds, 52);
}

TEST_F(ReplayTest, TheEarlierOneBeginsWhateverIsIssuedFirst) {
  TapeWriter rank(0);
  rank.work(9);
  rank.exchange(node_, 10, rank.record(), "late");
  rank.exchange(other_node_, 4, 0, "early");
  const ReplayedRank found = alone(rank);
  EXPECT_EQ(span_of(found, "early").begin, 0);
  EXPECT_EQ(span_of(found, "late").begin, 9);
}

TEST_F(ReplayTest, AnExchangeWaitsForTheLastRecordedMember) {
  std::vector<TapeWriter> ranks{TapeWriter(0), TapeWriter(1)};
  const std::vector<std::size_t> work = some_seconds(2);
  for (std::size_t i = 0; i < 2; ++i) {
    ranks[i].work(work[i]);
    ranks[i].wait(ranks[i].exchange(node_, 4, ranks[i].record()));
  }
  for (const ReplayedRank& rank : replay(tapes_of(ranks), unit_prices())) {
    EXPECT_EQ(rank.seconds, real(std::max(work[0], work[1])) + 4);
  }
  EXPECT_EQ(alone(ranks[0]).seconds, real(work[0]) + 4) << "the other is as early as this one";
}

TEST_F(ReplayTest, NothingBeginsBeforeItsHostHasIssuedIt) {
  TapeWriter rank(0);
  rank.work(4, kCommunication);
  rank.host_wait(rank.record(kCommunication));
  rank.work(3);
  rank.exchange(node_, 2, 0, "issued late");
  const ReplayedRank found = alone(rank);
  EXPECT_EQ(found.for_the_host, 4);
  EXPECT_EQ(span_of(found, "issued late").begin, 4);
  EXPECT_EQ(found.seconds, 7);
}

TEST_F(ReplayTest, TheHostWaitsForExchangesOfItsMemory) {
  TapeWriter rank(0);
  rank.work(4);
  rank.exchange(node_, 6, 0, "count", true);
  rank.work(3);
  const ReplayedRank found = alone(rank);
  EXPECT_EQ(found.seconds, 9);
  EXPECT_EQ(found.for_the_host, 2);
  EXPECT_EQ(found.exchanges[0].seconds, 6);
}

TEST_F(ReplayTest, RanksThatCopyHideNothingInANode) {
  Prices prices = unit_prices();
  prices.cluster.ranks_copy = true;
  for (const bool inside : {true, false}) {
    TapeWriter rank(0);
    rank.work(2);
    const EventId end = rank.exchange(inside ? node_ : nodes_, 5, rank.record());
    rank.work(7);
    rank.wait(end);
    const ReplayedRank found = alone(rank, prices);
    EXPECT_EQ(found.seconds, inside ? 14 : 9);
    EXPECT_EQ(found.for_exchanges(), inside ? 5 : 0);
  }
}

TEST_F(ReplayTest, ExchangesBetweenNodesStealFromWorkBesideThem) {
  Prices prices = unit_prices();
  prices.cluster.network_steals = 0.5;
  TapeWriter rank(0);
  const EventId end = rank.exchange(nodes_, 6, 0);
  rank.work(10);
  rank.wait(end);
  EXPECT_EQ(alone(rank, prices).seconds, 13);
  EXPECT_EQ(alone(rank, prices).for_exchanges(), 3);
  // What begins while one is on its way loses, too.
  TapeWriter later(0);
  later.exchange(nodes_, 6, 0);
  later.wait(later.exchange(node_, 2, 0));
  later.work(10);
  EXPECT_EQ(alone(later, prices).seconds, 2 + 10 + 2);
}

TEST_F(ReplayTest, AMessageBeginsWhenBothEndsAreThere) {
  const std::size_t sender = seconds(), receiver = seconds(), travels = seconds();
  std::vector<TapeWriter> ranks{TapeWriter(0), TapeWriter(1)};
  ranks[0].work(sender);
  ranks[0].send(1, 7, travels, ranks[0].record());
  ranks[0].work(100);
  ranks[1].work(receiver);
  ranks[1].wait(ranks[1].receive(0, 7, travels, ranks[1].record()));
  const auto found = replay(tapes_of(ranks), unit_prices());
  EXPECT_EQ(found[0].seconds, real(sender) + 100) << "a send takes no stream";
  EXPECT_EQ(found[1].seconds, real(std::max(sender, receiver) + travels));
  EXPECT_EQ(found[1].for_a_stage, found[1].seconds - real(receiver));
  EXPECT_EQ(alone(ranks[1]).seconds, real(receiver + travels)) << "the other is as early";
}

TEST_F(ReplayTest, MessagesOfOneNameMeetInTheirOrder) {
  std::vector<TapeWriter> ranks{TapeWriter(0), TapeWriter(1)};
  for (std::size_t i = 1; i <= 3; ++i) {
    ranks[0].work(10);
    ranks[0].send(1, 7, i, ranks[0].record());
    ranks[1].wait(ranks[1].receive(0, 7, i));
    ranks[1].work(1);
  }
  EXPECT_EQ(replay(tapes_of(ranks), unit_prices())[1].seconds, 30 + 3 + 1);
}

TEST_F(ReplayTest, StreamsThatWaitForEachOtherHoldNoHost) {
  // Each has issued its send behind a wait for the other's, of what was ready before.
  std::vector<TapeWriter> ranks{TapeWriter(0), TapeWriter(1)};
  for (int i = 0; i < 2; ++i) {
    TapeWriter& rank = ranks[static_cast<std::size_t>(i)];
    rank.work(3);
    const EventId ready = rank.record();
    rank.wait(rank.receive(1 - i, 0, 2));
    rank.send(1 - i, 0, 2, ready);
  }
  for (const ReplayedRank& rank : replay(tapes_of(ranks), unit_prices())) {
    EXPECT_EQ(rank.seconds, 5);
  }
}

TEST_F(ReplayTest, ARingOfStagesThatReceiveBeforeTheySendNeverEnds) {
  std::vector<TapeWriter> ranks;
  for (int i = 0; i < 3; ++i) {
    TapeWriter& rank = ranks.emplace_back(i);
    rank.wait(rank.receive((i + 2) % 3, 0, 1));
    rank.work(1);
    rank.send((i + 1) % 3, 0, 1, rank.record());
  }
  ultra::test::expect_message<ConfigError>(
      [&] { (void)replay(tapes_of(ranks), unit_prices()); },
      {"never ends",
       "rank 0 on its compute stream waits for a message from rank 2 in the group 'stages'",
       "rank 1 on its compute stream waits for a message from rank 0", "rank 2", "needs a send"});
}

TEST_F(ReplayTest, AHostThatWaitsForAMemberWhichNeverComes) {
  std::vector<TapeWriter> ranks{TapeWriter(0), TapeWriter(1)};
  ranks[0].host_wait(ranks[0].exchange(node_, 1, 0));
  ranks[1].work(1);
  ultra::test::expect_message<ConfigError>(
      [&] { (void)replay(tapes_of(ranks), unit_prices()); },
      {"rank 0 on its host waits for all-reduce number 0 of the group 'node', for which rank 1 is "
       "not ready"});
}

TEST_F(ReplayTest, MembersMustIssueTheSameExchanges) {
  std::vector<TapeWriter> ranks{TapeWriter(0), TapeWriter(1)};
  ranks[0].exchange(node_, 1, 0);
  ranks[1].exchange(node_, 1, 0, "", false, ExchangeKind::kAllGather);
  ultra::test::expect_message<ConfigError>(
      [&] { (void)replay(tapes_of(ranks), unit_prices()); },
      {"Ranks 0 and 1", "'node'", "all-reduce number 0", "all-gather number 0", "in one order"});
}

TEST_F(ReplayTest, ARankIsGivenOnce) {
  const TapeWriter rank(3);
  const std::vector<RankTape> twice{rank.taped(), rank.taped()};
  ultra::test::expect_message<ConfigError>([&] { (void)replay(twice, unit_prices()); },
                                           {"rank 3 is given twice", "leave one out"});
}

}  // namespace
}  // namespace ultra::replay

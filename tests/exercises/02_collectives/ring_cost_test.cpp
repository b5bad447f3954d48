// Contract of exercise 02.7: published figures, cases worked by hand, and the steps of a ring
// walked one by one.
#include "chapters/02_collectives/ring_cost.hpp"

#include "tests/support/suspects.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::collectives {
namespace {

using ultra::test::Suspect;

/// What is asked, for messages.
struct Question {
  int ranks = 1;
  std::size_t count = 0;
  std::size_t element_bytes = 4;
  LinkCost link = {};

  [[nodiscard]] std::string str() const {
    return fmt::format("{} ranks, {} elements of {} bytes, alpha {} beta {} gamma {}", ranks, count,
                       element_bytes, link.alpha, link.beta, link.gamma);
  }
  [[nodiscard]] double bytes() const { return static_cast<double>(count * element_bytes); }
  /// Of chunk `index` modulo ranks; the longer ones come first.
  [[nodiscard]] double chunk_bytes(int index) const {
    const auto parts = static_cast<std::size_t>(ranks);
    const auto chunk = static_cast<std::size_t>((index % ranks + ranks) % ranks);
    return static_cast<double>((count / parts + (chunk < count % parts ? 1 : 0)) * element_bytes);
  }
  [[nodiscard]] double shortest_chunk_bytes() const { return chunk_bytes(ranks - 1); }
};

/// A collective: its trips around the ring that reduce, and those that do not.
struct Collective {
  const char* name;
  RingCost (*cost)(int, std::size_t, std::size_t, const LinkCost&);
  int reducing;
  int storing;
};
constexpr Collective kReduceScatter{"reduce-scatter", ring_reduce_scatter_cost, 1, 0};
constexpr Collective kAllGather{"all-gather", ring_all_gather_cost, 0, 1};
constexpr Collective kAllReduce{"all-reduce", ring_all_reduce_cost, 1, 1};
constexpr Collective kCollectives[] = {kReduceScatter, kAllGather, kAllReduce};

/// Seconds are the same sum in another order, a few thousand roundings; whole numbers here are far
/// too small to be close to another one.
constexpr double kRoundings = 1e-11;

// A walk of the ring, step by step: the oracle ----------------------------------------------------

/// Takes n - 1 steps from `ready`, the time at which each rank begins; in step s rank r sends chunk
/// r - offset - s to r + 1. A message starts when both its ends are ready.
std::vector<double> walk(const Question& q, std::vector<double> ready, int offset, double gamma) {
  const int n = q.ranks;
  const auto at = [&](int rank) { return static_cast<std::size_t>((rank + n) % n); };
  for (int s = 0; s + 1 < n; ++s) {
    std::vector<double> ended(ready.size(), 0.0);
    for (int r = 0; r < n; ++r) {
      const double bytes = q.chunk_bytes(r - offset - s);
      const double start = std::max(ready[at(r)], ready[at(r + 1)]);
      const double arrived = start + q.link.alpha + bytes * q.link.beta;
      ended[at(r)] = std::max(ended[at(r)], arrived);
      ended[at(r + 1)] = std::max(ended[at(r + 1)], arrived + bytes * gamma);
    }
    ready = ended;
  }
  return ready;
}

double walked_seconds(const Collective& c, const Question& q) {
  std::vector<double> times(static_cast<std::size_t>(q.ranks), 0.0);
  if (c.reducing > 0) times = walk(q, times, 1, q.link.gamma);
  if (c.storing > 0) times = walk(q, times, 0, 0.0);
  return std::ranges::max(times);
}

constexpr const char* kTwoTrips =
    "an all-reduce takes two trips around the ring: a reduce-scatter and an all-gather.";
constexpr const char* kOneChunk =
    "each message carries one chunk, S / N: the volume is 2 S (N - 1) / N, not 2 S (N - 1).";
constexpr const char* kAlphaPerMessage =
    "alpha is paid for every message, N - 1 times per trip, not once per collective.";
constexpr const char* kLongestChunk =
    "the longest chunk sets the pace: ceil(count / N) elements, where the count does not divide.";
constexpr const char* kLinks =
    "a chunk passes N - 1 links on its way around the ring: its last stop need not pass it on.";
constexpr const char* kBytes = "beta and gamma are per byte: multiply by element_bytes.";

/// The seconds that typical mistakes give.
std::vector<Suspect> wrong_seconds(const Collective& c, const Question& q) {
  const auto [alpha, beta, gamma] = q.link;
  const double n = q.ranks;
  const double trips = c.reducing + c.storing;
  const double steps = n - 1;
  const double chunk = q.chunk_bytes(0);
  const double all = q.bytes();
  const auto seconds = [&](double bytes, double taken) {
    return taken * (trips * alpha + bytes * (trips * beta + c.reducing * gamma));
  };
  return {{seconds(all, steps), kOneChunk},
          {seconds(chunk, steps) - steps * (alpha + chunk * beta), kTwoTrips},
          {seconds(chunk, steps) - steps * (alpha + chunk * (beta + gamma)), kTwoTrips},
          {seconds(chunk, steps) - trips * (steps - 1) * alpha, kAlphaPerMessage},
          {seconds(chunk, steps) - (trips * steps - 1) * alpha, kAlphaPerMessage},
          {seconds(chunk, steps) + steps * chunk * gamma,
           "only the reduce-scatter reduces: the all-gather pays no gamma."},
          {seconds(q.shortest_chunk_bytes(), steps), kLongestChunk},
          {seconds(all / n, steps), kLongestChunk},
          {seconds(chunk, n), kLinks},
          {seconds(chunk / static_cast<double>(q.element_bytes), steps), kBytes}};
}

void expect_cost(const Collective& c, const Question& q, double expected_seconds) {
  const RingCost found = c.cost(q.ranks, q.count, q.element_bytes, q.link);
  const std::string what = fmt::format(" of {} of {}", c.name, q.str());
  const auto expect = [&](const char* name, double number, double expected,
                          const std::vector<Suspect>& suspects) {
    ultra::test::expect_close(name + what, number, expected, suspects, kRoundings);
  };
  const double n = q.ranks;
  const double trips = c.reducing + c.storing;
  const double messages = trips * (n - 1);
  expect("messages", static_cast<double>(found.messages), messages,
         {{trips * n, kLinks}, {n - 1, kTwoTrips}});
  const double all = q.bytes();
  const double sent = messages * all / n;
  expect("bytes sent", found.sent_bytes, sent,
         {{messages * all, kOneChunk},
          {sent / 2, kTwoTrips},
          {sent / static_cast<double>(q.element_bytes), kBytes}});
  expect("bytes of a chunk", static_cast<double>(found.chunk_bytes), q.chunk_bytes(0),
         {{all, kOneChunk}, {q.shortest_chunk_bytes(), kLongestChunk}, {all / n, kLongestChunk}});
  expect("seconds", found.seconds, expected_seconds, wrong_seconds(c, q));
}

/// 8 GPUs and 1 GB: a ring all-reduce sends 1.75 GB per GPU in 14 hops (a textbook's example of
/// data-parallel training). At the 370 GB/s that NCCL's ring reaches on a node of 8 H100
/// (nccl-tests, issue 212) that takes 1.75 / 370 s.
TEST(RingCost, OfOneGigabyteOnEightGpusIsThePublishedOne) {
  Question q{.ranks = 8, .count = 250'000'000, .link = {.beta = 1.0 / 370e9}};
  expect_cost(kAllReduce, q, 1.75 / 370);
  const RingCost found = ring_all_reduce_cost(q.ranks, q.count, q.element_bytes, q.link);
  EXPECT_EQ(found.messages, 14u);
  EXPECT_DOUBLE_EQ(found.sent_bytes, 1.75e9);
  // NCCL's tuner takes 3.4 us for a hop over NVLink (src/graph/tuning.cc): 14 of them are 47.6 us.
  q.link.alpha = 3.4e-6;
  expect_cost(kAllReduce, q, 1.75 / 370 + 14 * 3.4e-6);
}

/// The same textbook: 350 GB of fp16 weights in 64 parts are 5.47 GB each.
TEST(RingCost, OfAModelOf350GigabytesOn64Ranks) {
  const RingCost found = ring_all_gather_cost(64, 175'000'000'000, 2, {});
  EXPECT_EQ(found.chunk_bytes, 5'468'750'000u);
  EXPECT_EQ(found.messages, 63u);
  EXPECT_DOUBLE_EQ(found.sent_bytes, 344'531'250'000.0);
}

/// nccl-tests, doc/PERFORMANCE.md: the bus bandwidth S / t (N - 1) / N, or 2 (N - 1) / N for
/// all-reduce, is the bandwidth of the links, whatever N, when latency is nothing.
TEST(RingCost, WithoutLatencyRunsAtTheBandwidthOfTheLinks) {
  for (const int ranks : {2, 4, 16, 256, 1024}) {
    const Question q{.ranks = ranks, .count = 1 << 20, .link = {.beta = 1.0 / 50e9}};
    for (const Collective& c : kCollectives) {
      expect_cost(c, q, q.bytes() * (c.reducing + c.storing) * (ranks - 1) / ranks / 50e9);
    }
  }
}

/// 10 elements of 4 bytes on 4 ranks: chunks of 3, 3, 2 and 2. Three steps of the longest, 12
/// bytes: 3 (1 + 12 / 4 + 12 / 8) = 16.5 s with reduction, 3 (1 + 12 / 4) = 12 s without.
TEST(RingCost, OfTenElementsOnFourRanksByHand) {
  const Question q{.ranks = 4, .count = 10, .link = {.alpha = 1.0, .beta = 0.25, .gamma = 0.125}};
  expect_cost(kReduceScatter, q, 16.5);
  expect_cost(kAllGather, q, 12.0);
  expect_cost(kAllReduce, q, 28.5);
}

class RingCostOfRandomShapes : public ultra::test::RandomTest {
 protected:
  /// Small counts: most do not divide, and some are below the number of ranks, or nothing at all.
  Question draw() {
    return {.ranks = static_cast<int>(random.between(1, 40)),
            .count = random.pick({std::size_t{0}, random.between(1, 200), random.between(1, 200)}),
            .element_bytes = random.pick<std::size_t>({2, 4, 8}),
            .link = {.alpha = random.uniform(0.1, 2.0),
                     .beta = random.uniform(0.01, 1.0),
                     .gamma = random.uniform(0.01, 1.0)}};
  }
};

TEST_F(RingCostOfRandomShapes, IsTheTimeThatTheStepsTake) {
  for (int i = 0; i < 300 && !HasFailure(); ++i) {
    const Question q = draw();
    for (const Collective& c : kCollectives) expect_cost(c, q, walked_seconds(c, q));
  }
}

}  // namespace
}  // namespace ultra::collectives

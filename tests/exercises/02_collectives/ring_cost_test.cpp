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
};

/// A collective: its trips around the ring that reduce, and those that do not.
struct Collective {
  const char* name;
  RingCost (*cost)(int, std::size_t, std::size_t, const LinkCost&);
  int reducing;
  int storing;

  [[nodiscard]] RingCost of(const Question& q) const {
    return cost(q.ranks, q.count, q.element_bytes, q.link);
  }
};
constexpr Collective kReduceScatter{"reduce-scatter", ring_reduce_scatter_cost, 1, 0};
constexpr Collective kAllGather{"all-gather", ring_all_gather_cost, 0, 1};
constexpr Collective kAllReduce{"all-reduce", ring_all_reduce_cost, 1, 1};

/// Both numbers are the same sum in another order: a few thousand roundings.
constexpr double kRoundings = 1e-11;

// A walk of the ring, step by step: the oracle ----------------------------------------------------

/// Bytes of chunk `index` of count elements in n chunks; the longer ones come first.
double chunk_bytes(const Question& q, int index) {
  const int n = q.ranks;
  const auto parts = static_cast<std::size_t>(n);
  const auto chunk = static_cast<std::size_t>(((index % n) + n) % n);
  const std::size_t elements = q.count / parts + (chunk < q.count % parts ? 1 : 0);
  return static_cast<double>(elements * q.element_bytes);
}

double floor_chunk_bytes(const Question& q) {
  return static_cast<double>(q.count / static_cast<std::size_t>(q.ranks) * q.element_bytes);
}

/// Takes n - 1 steps from `ready`, the time at which each rank begins; in step s rank r sends chunk
/// r - offset - s to r + 1. A message starts when both its ends are ready.
std::vector<double> walk(const Question& q, std::vector<double> ready, int offset, double gamma) {
  const int n = q.ranks;
  const auto at = [&](int rank) { return static_cast<std::size_t>((rank + n) % n); };
  for (int s = 0; s + 1 < n; ++s) {
    std::vector<double> ended(ready.size(), 0.0);
    for (int r = 0; r < n; ++r) {
      const double bytes = chunk_bytes(q, r - offset - s);
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
  const double reducing = c.reducing;
  const auto [alpha, beta, gamma] = q.link;
  const double n = q.ranks;
  const double trips = c.reducing + c.storing;
  const double steps = n - 1;
  const double chunk = chunk_bytes(q, 0);
  const double all = static_cast<double>(q.count * q.element_bytes);
  const double element = static_cast<double>(q.element_bytes);
  const auto seconds = [&](double bytes, double taken) {
    return taken * (trips * alpha + bytes * (trips * beta + reducing * gamma));
  };
  return {{seconds(all, steps), kOneChunk},
          {seconds(chunk, steps) - steps * (alpha + chunk * beta), kTwoTrips},
          {seconds(chunk, steps) - steps * (alpha + chunk * (beta + gamma)), kTwoTrips},
          {seconds(chunk, steps) - trips * (steps - 1) * alpha, kAlphaPerMessage},
          {seconds(chunk, steps) - (trips * steps - 1) * alpha, kAlphaPerMessage},
          {seconds(chunk, steps) + steps * chunk * gamma,
           "only the reduce-scatter reduces: the all-gather pays no gamma."},
          {seconds(floor_chunk_bytes(q), steps), kLongestChunk},
          {seconds(all / n, steps), kLongestChunk},
          {seconds(chunk, n), kLinks},
          {seconds(chunk / element, steps), kBytes}};
}

// What may have gone wrong ------------------------------------------------------------------------

void expect_seconds(const Collective& c, const Question& q, double expected) {
  ultra::test::expect_close(fmt::format("seconds of {} of {}", c.name, q.str()), c.of(q).seconds,
                            expected, wrong_seconds(c, q), kRoundings);
}

void expect_messages(const Collective& c, const Question& q) {
  const RingCost found = c.of(q);
  const auto n = static_cast<std::size_t>(q.ranks);
  const auto trips = static_cast<std::size_t>(c.reducing + c.storing);
  const std::size_t expected = trips * (n - 1);
  const std::string what = fmt::format("{} of {}", c.name, q.str());
  EXPECT_EQ(found.messages, expected)
      << what << ". "
      << (found.messages == trips * n             ? fmt::format("Hint: {}", kLinks)
          : trips == 2 && found.messages == n - 1 ? fmt::format("Hint: {}", kTwoTrips)
                                                  : "");
  const double all = static_cast<double>(q.count * q.element_bytes);
  const double sent = static_cast<double>(expected) * all / static_cast<double>(n);
  ultra::test::expect_close("bytes sent by " + what, found.sent_bytes, sent,
                            {{static_cast<double>(expected) * all, kOneChunk},
                             {sent / 2, kTwoTrips},
                             {sent / static_cast<double>(q.element_bytes), kBytes}},
                            kRoundings);
  ultra::test::expect_close("bytes of a chunk of " + what, static_cast<double>(found.chunk_bytes),
                            chunk_bytes(q, 0),
                            {{all, kOneChunk},
                             {floor_chunk_bytes(q), kLongestChunk},
                             {all / static_cast<double>(n), kLongestChunk}},
                            0);
}

/// 8 GPUs and 1 GB: a ring all-reduce sends 1.75 GB per GPU in 14 hops (a textbook's example of
/// data-parallel training). At the 370 GB/s that NCCL's ring reaches on a node of 8 H100
/// (nccl-tests, issue 212) that takes 1.75 / 370 s.
TEST(RingCost, OfOneGigabyteOnEightGpusIsThePublishedOne) {
  Question q{.ranks = 8, .count = 250'000'000, .link = {.beta = 1.0 / 370e9}};
  expect_messages(kAllReduce, q);
  EXPECT_EQ(kAllReduce.of(q).messages, 14u);
  EXPECT_DOUBLE_EQ(kAllReduce.of(q).sent_bytes, 1.75e9);
  EXPECT_NEAR(kAllReduce.of(q).seconds * 1e3, 4.7297, 5e-5);
  expect_seconds(kAllReduce, q, 1.75 / 370);
  // NCCL's tuner takes 3.4 us for a hop over NVLink (src/graph/tuning.cc): 14 of them are 47.6 us.
  q.link.alpha = 3.4e-6;
  expect_seconds(kAllReduce, q, 1.75 / 370 + 14 * 3.4e-6);
}

/// The same textbook: 350 GB of fp16 weights in 64 parts are 5.47 GB each.
TEST(RingCost, OfAModelOf350GigabytesOn64Ranks) {
  const RingCost found = kAllGather.of({.ranks = 64, .count = 175'000'000'000, .element_bytes = 2});
  EXPECT_EQ(found.chunk_bytes, 5'468'750'000u);
  EXPECT_EQ(found.messages, 63u);
  EXPECT_DOUBLE_EQ(found.sent_bytes, 344'531'250'000.0);
}

/// nccl-tests, doc/PERFORMANCE.md: the bus bandwidth S / t (N - 1) / N, or 2 (N - 1) / N for
/// all-reduce, is the bandwidth of the links, whatever N, when latency is nothing.
TEST(RingCost, WithoutLatencyRunsAtTheBandwidthOfTheLinks) {
  for (const int ranks : {2, 4, 16, 256, 1024}) {
    const Question q{.ranks = ranks, .count = 1 << 20, .link = {.beta = 1.0 / 50e9}};
    const double all = static_cast<double>(q.count * q.element_bytes);
    for (const Collective& c : {kReduceScatter, kAllGather, kAllReduce}) {
      expect_seconds(c, q, all * (c.reducing + c.storing) * (ranks - 1) / ranks / 50e9);
    }
  }
}

/// 10 elements of 4 bytes on 4 ranks: chunks of 3, 3, 2 and 2. Three steps of the longest, 12
/// bytes: 3 (1 + 12 / 4 + 12 / 8) = 16.5 s with reduction, 3 (1 + 12 / 4) = 12 s without.
TEST(RingCost, OfTenElementsOnFourRanksByHand) {
  const Question q{.ranks = 4, .count = 10, .link = {.alpha = 1.0, .beta = 0.25, .gamma = 0.125}};
  expect_seconds(kReduceScatter, q, 16.5);
  expect_seconds(kAllGather, q, 12.0);
  expect_seconds(kAllReduce, q, 28.5);
  EXPECT_EQ(kAllReduce.of(q).chunk_bytes, 12u);
  EXPECT_DOUBLE_EQ(kAllReduce.of(q).sent_bytes, 60.0) << "2 x 40 bytes x 3 / 4";
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
    for (const Collective& c : {kReduceScatter, kAllGather, kAllReduce}) {
      expect_messages(c, q);
      expect_seconds(c, q, walked_seconds(c, q));
    }
  }
}

}  // namespace
}  // namespace ultra::collectives

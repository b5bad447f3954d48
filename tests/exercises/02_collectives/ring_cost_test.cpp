// Contract of exercise 02.7: published figures, cases worked by hand, and the steps of a ring
// walked one by one.
#include "chapters/02_collectives/ring_cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

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

RingCost reduce_scatter(const Question& q) {
  return ring_reduce_scatter_cost(q.ranks, q.count, q.element_bytes, q.link);
}
RingCost all_gather(const Question& q) {
  return ring_all_gather_cost(q.ranks, q.count, q.element_bytes, q.link);
}
RingCost all_reduce(const Question& q) {
  return ring_all_reduce_cost(q.ranks, q.count, q.element_bytes, q.link);
}

/// Both numbers are the same sum in another order: a few thousand roundings.
constexpr double kRoundings = 1e-11;

bool close(double a, double b) { return ultra::test::close(a, b, kRoundings); }

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

double latest(const std::vector<double>& times) {
  return *std::max_element(times.begin(), times.end());
}

std::vector<double> start(const Question& q) {
  return std::vector<double>(static_cast<std::size_t>(q.ranks), 0.0);
}
double walked_reduce_scatter(const Question& q) {
  return latest(walk(q, start(q), 1, q.link.gamma));
}
double walked_all_gather(const Question& q) { return latest(walk(q, start(q), 0, 0.0)); }
double walked_all_reduce(const Question& q) {
  return latest(walk(q, walk(q, start(q), 1, q.link.gamma), 0, 0.0));
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

std::string diagnosis(double found, double expected, const std::vector<Suspect>& suspects) {
  return ultra::test::diagnosis(found, expected, suspects, kRoundings);
}

/// The seconds that typical mistakes give, for a collective of `reducing` trips that reduce and
/// `storing` trips that do not.
std::vector<Suspect> wrong_seconds(const Question& q, double reducing, double storing) {
  const auto [alpha, beta, gamma] = q.link;
  const double n = q.ranks;
  const double trips = reducing + storing;
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

void expect_seconds(const Question& q, const char* name, double found, double expected,
                    const std::vector<Suspect>& suspects) {
  EXPECT_TRUE(close(found, expected))
      << name << " of " << q.str() << ": " << found << " s, expected " << expected << " s. "
      << diagnosis(found, expected, suspects);
}

std::string message_diagnosis(const Question& q, std::size_t found, std::size_t trips) {
  const auto n = static_cast<std::size_t>(q.ranks);
  if (found == trips * n) return fmt::format("Hint: {}", kLinks);
  if (trips == 2 && found == n - 1) return fmt::format("Hint: {}", kTwoTrips);
  return "";
}

void expect_messages(const Question& q, const char* name, const RingCost& found,
                     std::size_t trips) {
  const auto n = static_cast<std::size_t>(q.ranks);
  const std::size_t expected = trips * (n - 1);
  EXPECT_EQ(found.messages, expected)
      << name << " of " << q.str() << ". " << message_diagnosis(q, found.messages, trips);

  const double all = static_cast<double>(q.count * q.element_bytes);
  const double sent = static_cast<double>(expected) * all / static_cast<double>(n);
  EXPECT_TRUE(close(found.sent_bytes, sent))
      << name << " of " << q.str() << ": " << found.sent_bytes << " bytes sent, expected " << sent
      << ". "
      << diagnosis(found.sent_bytes, sent,
                   {{static_cast<double>(expected) * all, kOneChunk},
                    {sent / 2, kTwoTrips},
                    {sent / static_cast<double>(q.element_bytes), kBytes}});
  EXPECT_EQ(static_cast<double>(found.chunk_bytes), chunk_bytes(q, 0))
      << name << " of " << q.str() << ". "
      << diagnosis(static_cast<double>(found.chunk_bytes), chunk_bytes(q, 0),
                   {{all, kOneChunk},
                    {floor_chunk_bytes(q), kLongestChunk},
                    {all / static_cast<double>(n), kLongestChunk}});
}

void expect_reduce_scatter(const Question& q) {
  const RingCost found = reduce_scatter(q);
  expect_messages(q, "reduce-scatter", found, 1);
  expect_seconds(q, "reduce-scatter", found.seconds, walked_reduce_scatter(q),
                 wrong_seconds(q, 1, 0));
}
void expect_all_gather(const Question& q) {
  const RingCost found = all_gather(q);
  expect_messages(q, "all-gather", found, 1);
  expect_seconds(q, "all-gather", found.seconds, walked_all_gather(q), wrong_seconds(q, 0, 1));
}
void expect_all_reduce(const Question& q) {
  const RingCost found = all_reduce(q);
  expect_messages(q, "all-reduce", found, 2);
  expect_seconds(q, "all-reduce", found.seconds, walked_all_reduce(q), wrong_seconds(q, 1, 1));
}

// Published figures -------------------------------------------------------------------------------

/// 8 GPUs and 1 GB: a ring all-reduce sends 1.75 GB per GPU in 14 hops (a textbook's example of
/// data-parallel training). At the 370 GB/s that NCCL's ring reaches on a node of 8 H100
/// (nccl-tests, issue 212) that takes 1.75 / 370 s.
TEST(RingCost, OfOneGigabyteOnEightGpusIsThePublishedOne) {
  Question q{.ranks = 8, .count = 250'000'000, .link = {.beta = 1.0 / 370e9}};
  const RingCost cost = all_reduce(q);
  EXPECT_EQ(cost.messages, 14u) << message_diagnosis(q, cost.messages, 2);
  EXPECT_DOUBLE_EQ(cost.sent_bytes, 1.75e9)
      << diagnosis(cost.sent_bytes, 1.75e9, {{14e9, kOneChunk}, {0.875e9, kTwoTrips}});
  EXPECT_NEAR(cost.seconds * 1e3, 4.7297, 5e-5)
      << diagnosis(cost.seconds, 1.75 / 370, wrong_seconds(q, 1, 1));
  // NCCL's tuner takes 3.4 us for a hop over NVLink (src/graph/tuning.cc): 14 of them are 47.6 us.
  q.link.alpha = 3.4e-6;
  EXPECT_NEAR(all_reduce(q).seconds * 1e3, 4.7773, 5e-5)
      << diagnosis(all_reduce(q).seconds, 1.75 / 370 + 14 * 3.4e-6, wrong_seconds(q, 1, 1));
}

/// The same textbook: 350 GB of fp16 weights in 64 parts are 5.47 GB each.
TEST(RingCost, OfAModelOf350GigabytesOn64Ranks) {
  const Question q{.ranks = 64, .count = 175'000'000'000, .element_bytes = 2};
  EXPECT_EQ(all_gather(q).chunk_bytes, 5'468'750'000u);
  EXPECT_EQ(all_gather(q).messages, 63u);
  EXPECT_DOUBLE_EQ(all_gather(q).sent_bytes, 344'531'250'000.0);
}

/// nccl-tests, doc/PERFORMANCE.md: the bus bandwidth S / t (N - 1) / N, or 2 (N - 1) / N for
/// all-reduce, is the bandwidth of the links, whatever N, when latency is nothing.
TEST(RingCost, WithoutLatencyRunsAtTheBandwidthOfTheLinks) {
  for (const int ranks : {2, 4, 16, 256, 1024}) {
    const Question q{.ranks = ranks, .count = 1 << 20, .link = {.beta = 1.0 / 50e9}};
    const double n = ranks;
    const double all = static_cast<double>(q.count * q.element_bytes);
    EXPECT_NEAR(all / reduce_scatter(q).seconds * (n - 1) / n / 1e9, 50.0, 1e-9) << ranks;
    EXPECT_NEAR(all / all_gather(q).seconds * (n - 1) / n / 1e9, 50.0, 1e-9) << ranks;
    EXPECT_NEAR(all / all_reduce(q).seconds * 2 * (n - 1) / n / 1e9, 50.0, 1e-9)
        << ranks << " ranks. "
        << diagnosis(all_reduce(q).seconds, walked_all_reduce(q), wrong_seconds(q, 1, 1));
  }
}

// By hand -----------------------------------------------------------------------------------------

/// 10 elements of 4 bytes on 4 ranks: chunks of 3, 3, 2 and 2. Three steps of the longest, 12
/// bytes: 3 (1 + 12 / 4 + 12 / 8) = 16.5 s with reduction, 3 (1 + 12 / 4) = 12 s without.
TEST(RingCost, OfTenElementsOnFourRanksByHand) {
  const Question q{.ranks = 4, .count = 10, .link = {.alpha = 1.0, .beta = 0.25, .gamma = 0.125}};
  EXPECT_DOUBLE_EQ(reduce_scatter(q).seconds, 16.5)
      << diagnosis(reduce_scatter(q).seconds, 16.5, wrong_seconds(q, 1, 0));
  EXPECT_DOUBLE_EQ(all_gather(q).seconds, 12.0)
      << diagnosis(all_gather(q).seconds, 12.0, wrong_seconds(q, 0, 1));
  EXPECT_DOUBLE_EQ(all_reduce(q).seconds, 28.5)
      << diagnosis(all_reduce(q).seconds, 28.5, wrong_seconds(q, 1, 1));
  EXPECT_EQ(all_reduce(q).chunk_bytes, 12u);
  EXPECT_DOUBLE_EQ(all_reduce(q).sent_bytes, 60.0) << "2 x 40 bytes x 3 / 4";
}

TEST(RingCost, OfOneRankIsNothing) {
  const Question q{.ranks = 1, .count = 10, .link = {.alpha = 1.0, .beta = 1.0, .gamma = 1.0}};
  for (const RingCost& cost : {reduce_scatter(q), all_gather(q), all_reduce(q)}) {
    EXPECT_EQ(cost.messages, 0u);
    EXPECT_EQ(cost.sent_bytes, 0.0);
    EXPECT_EQ(cost.seconds, 0.0);
  }
}

TEST(RingCost, OfAnEmptyArrayIsLatency) {
  const Question q{.ranks = 5, .count = 0, .link = {.alpha = 1.0, .beta = 1.0, .gamma = 1.0}};
  EXPECT_EQ(reduce_scatter(q).seconds, 4.0)
      << diagnosis(reduce_scatter(q).seconds, 4.0, wrong_seconds(q, 1, 0));
  EXPECT_EQ(all_reduce(q).seconds, 8.0)
      << diagnosis(all_reduce(q).seconds, 8.0, wrong_seconds(q, 1, 1));
  EXPECT_EQ(all_reduce(q).sent_bytes, 0.0);
}

// Against the walk --------------------------------------------------------------------------------

class RingCostOfRandomShapes : public ultra::test::RandomTest {
 protected:
  /// Small counts: most do not divide, and some are below the number of ranks.
  Question draw() {
    return {.ranks = static_cast<int>(random.between(2, 40)),
            .count = random.between(1, 200),
            .element_bytes = random.pick<std::size_t>({2, 4, 8}),
            .link = {.alpha = random.uniform(0.1, 2.0),
                     .beta = random.uniform(0.01, 1.0),
                     .gamma = random.uniform(0.01, 1.0)}};
  }
};

TEST_F(RingCostOfRandomShapes, IsTheTimeThatTheStepsTake) {
  for (int i = 0; i < 200 && !HasFailure(); ++i) {
    const Question q = draw();
    expect_reduce_scatter(q);
    expect_all_gather(q);
    expect_all_reduce(q);
  }
}

}  // namespace
}  // namespace ultra::collectives

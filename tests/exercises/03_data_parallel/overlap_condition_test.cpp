// Contract of exercise 03.6: published thresholds, cases worked by hand, and a queue of buckets that
// is served one by one.
#include "chapters/03_data_parallel/overlap_condition.hpp"

#include "tests/support/suspects.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::data_parallel {
namespace {

using ultra::test::Suspect;

/// Both numbers are the same few products and sums in another order.
constexpr double kRoundings = 1e-12;

constexpr const char* kFourFlop =
    "the backward pass takes 4 FLOP per token and parameter; the other 2 of the 6 are the forward "
    "pass, during which there is nothing to send.";
constexpr const char* kShare =
    "each rank sends 2 (N - 1) / N of the bytes: one replica sends none, many send just under 2.";
constexpr const char* kTwoWays =
    "an all-reduce sends (N - 1) / N of the bytes twice: to reduce, and to gather.";
constexpr const char* kLastBucket =
    "the last bucket is always exposed: it is full only when the backward pass ends.";
constexpr const char* kFirstBucket =
    "the link cannot begin before the first bucket is full, after T_b / B seconds: T_b (B - 1) / B "
    "are left to hide in.";
constexpr const char* kOneBucket = "a bucket holds G / B bytes, not all of G.";
constexpr const char* kLatency =
    "every bucket pays the latency of its own 2 (N - 1) messages: more buckets, more latency.";

/// One bucket around the ring, step by step: 2 (N - 1) messages of a chunk each, half of them
/// reduced.
double walked_bucket(const OverlapCase& c) {
  const double chunk = c.gradient_bytes / static_cast<double>(c.buckets) / c.replicas;
  double seconds = 0.0;
  for (int step = 0; step < 2 * (c.replicas - 1); ++step) {
    const bool reduces = step < c.replicas - 1;
    seconds += c.link.alpha + chunk * (c.link.beta + (reduces ? c.link.gamma : 0.0));
  }
  return seconds;
}

/// A queue: bucket i comes when i / B of the backward pass are over, and is served when the link has
/// done with the one before. What is left of it after the backward pass is exposed.
double queued_exposed(const OverlapCase& c) {
  const double bucket = walked_bucket(c);
  double link_free = 0.0;
  for (std::size_t i = 1; i <= c.buckets; ++i) {
    const double ready =
        c.backward_seconds * static_cast<double>(i) / static_cast<double>(c.buckets);
    link_free = std::max(link_free, ready) + bucket;
  }
  return link_free - c.backward_seconds;
}

std::vector<Suspect> wrong_bucket(const OverlapCase& c) {
  const auto buckets = static_cast<double>(c.buckets);
  const double n = c.replicas;
  const double bucket = walked_bucket(c);
  const double latency = 2.0 * (n - 1.0) * c.link.alpha;
  const double bytes = bucket - latency;
  return {{latency + bytes * buckets, kOneBucket},
          {bucket * buckets, kOneBucket},
          {bytes, kLatency},
          {bytes + latency / buckets, kLatency},
          {bytes + c.link.alpha, kLatency},
          {bytes + 2 * c.link.alpha, kLatency},
          {bucket / 2.0, kTwoWays},
          {latency + bytes / (n - 1.0) * n, kShare},
          {latency + bytes * n, kShare}};
}

/// What overlap_ratio() is asked: about the published link and processor where it says nothing else.
struct Question {
  int replicas = 8;
  double tokens = 1.0;
  double element_bytes = 4.0;
  double flops = 989e12;
  double bandwidth = 450e9;

  [[nodiscard]] double ratio() const {
    return overlap_ratio(replicas, tokens, element_bytes, flops, bandwidth);
  }
  [[nodiscard]] std::string str() const {
    return fmt::format("{} replicas, {} tokens, {} bytes per element, {} FLOP/s, {} bytes/s",
                       replicas, tokens, element_bytes, flops, bandwidth);
  }
};

void expect_ratio(const Question& q, double right) {
  const double n = q.replicas;
  const std::vector<Suspect> wrong = {
      {q.replicas == 1 ? q.ratio() : right, kShare},
      {right / q.element_bytes,
       "a link's bandwidth counts bytes, not elements: multiply by element_bytes."},
      {right * 4.0 / 6.0, kFourFlop},
      {right * 2.0, kFourFlop},
      {right / 2.0, kTwoWays},
      {1.0 / right, "communication over backward, not backward over communication."},
      {right / (n - 1.0) * n, kShare},
      {right * n, kShare},
      {right * n * n / (n - 1.0) / (n - 1.0), kShare}};
  ultra::test::expect_close(q.str() + ": ratio", q.ratio(), right, wrong, kRoundings);
}

/// 4 replicas, 2 tokens, a link of 8 bytes/s, 12 FLOP/s: a parameter's 4 bytes pass the link 2 x 3/4
/// times, 6 bytes in 3/4 s. Its backward pass takes 8 FLOP, 2/3 s. With 3 replicas and one byte per
/// element: 4/3 bytes, 1/6 s.
TEST(OverlapRatio, IsCommunicationOverBackward) {
  expect_ratio({.replicas = 4, .tokens = 2, .element_bytes = 4, .flops = 12, .bandwidth = 8},
               9.0 / 8.0);
  expect_ratio({.replicas = 3, .tokens = 2, .element_bytes = 1, .flops = 12, .bandwidth = 8}, 0.25);
  expect_ratio({.replicas = 1}, 0.0);
}

/// The Ultra-Scale Playbook, appendix A3, from its two printed times (its printed ratio has the
/// number of parameters left over): with 989 TFLOP/s and 450 GB/s, 8 replicas hide the
/// communication from 961.5 tokens each. It counts elements; for bf16 these are twice as many.
TEST(OverlapRatio, IsOneAtThePublishedThresholds) {
  const auto tokens_for_one = [](int replicas, double bandwidth) {
    return Question{.replicas = replicas, .element_bytes = 1, .bandwidth = bandwidth}
        .ratio();  // of one token: the ratio falls with their number
  };
  constexpr int kMany = 1 << 30;
  EXPECT_NEAR(tokens_for_one(8, 450e9), 961.5, 0.05);
  EXPECT_NEAR(tokens_for_one(kMany, 450e9), 1099, 0.5);
  EXPECT_NEAR(tokens_for_one(kMany, 370e9), 1336.5, 0.05);
  EXPECT_NEAR(tokens_for_one(kMany, 50e9), 9890, 0.5);
}

std::string str(const OverlapCase& c) {
  return fmt::format(
      "{} replicas, {} bytes in {} buckets, {} s of backward pass, alpha {} beta {} gamma {}",
      c.replicas, c.gradient_bytes, c.buckets, c.backward_seconds, c.link.alpha, c.link.beta,
      c.link.gamma);
}

void expect_prediction(const OverlapCase& c) {
  const OverlapPrediction found = predict_overlap(c);
  const double bucket = walked_bucket(c);
  const double all = static_cast<double>(c.buckets) * bucket;
  ultra::test::expect_close(str(c) + ": seconds of a bucket", found.bucket_seconds, bucket,
                            wrong_bucket(c), kRoundings);
  ultra::test::expect_close(str(c) + ": seconds of all buckets", found.communication_seconds, all,
                            {}, kRoundings);
  if (::testing::Test::HasFailure()) return;
  const double after_all = all - c.backward_seconds;
  const double after_first = after_all + c.backward_seconds / static_cast<double>(c.buckets);
  const std::vector<Suspect> wrong = {
      {after_all, c.buckets == 1 ? kLastBucket : kFirstBucket},
      {std::max(bucket, after_all), kFirstBucket},
      {std::max(0.0, after_all), kLastBucket},
      {std::max(0.0, after_first), kLastBucket},
      {after_first, kLastBucket},
      {bucket, "buckets travel one after the other: one that is ready waits for those before it."}};
  // The smallest exposed times are differences of the larger ones: their rounding counts.
  const double exposed = queued_exposed(c);
  const double rounding = kRoundings * (all + c.backward_seconds);
  ASSERT_NEAR(found.exposed_seconds, exposed, rounding)
      << str(c) << ". "
      << ultra::test::diagnosis(found.exposed_seconds, exposed, wrong, kRoundings);
  ASSERT_NEAR(found.hidden_seconds, all - exposed, rounding)
      << str(c) << ". Hint: what is not exposed is hidden.";
}

/// 2 replicas: the all-reduce of a bucket of S bytes takes 2 alpha + S (beta + gamma / 2). Buckets of
/// 16 bytes take 2 s and come every 4 s: the link rests, and only the last is exposed. On a link of a
/// fifth of the bandwidth they take 6 s: it works from second 4 to second 28, 12 s longer than the
/// backward pass.
TEST(PredictOverlap, ByHand) {
  OverlapCase c{.replicas = 2,
                .gradient_bytes = 64,
                .buckets = 4,
                .backward_seconds = 16,
                .link = {.alpha = 0.5, .beta = 0.0625, .gamma = 0.0}};
  expect_prediction(c);
  EXPECT_EQ(predict_overlap(c), (OverlapPrediction{2.0, 8.0, 2.0, 6.0}));
  c.link.beta *= 5;
  expect_prediction(c);
  EXPECT_EQ(predict_overlap(c), (OverlapPrediction{6.0, 24.0, 12.0, 12.0}));
}

using PredictOverlapOfRandomCases = ultra::test::RandomTest;

/// Half of the links keep up with the backward pass, about.
TEST_F(PredictOverlapOfRandomCases, IsTheTimeThatAQueueTakes) {
  for (int i = 0; i < 500 && !HasFailure(); ++i) {
    expect_prediction({.replicas = static_cast<int>(random.between(1, 40)),
                       .gradient_bytes = random.uniform(1.0, 100.0),
                       .buckets = random.between(1, 50),
                       .backward_seconds = random.uniform(1.0, 200.0),
                       .link = {.alpha = random.uniform(0.0, 0.05),
                                .beta = random.uniform(0.1, 1.0),
                                .gamma = random.uniform(0.0, 0.5)}});
  }
}

}  // namespace
}  // namespace ultra::data_parallel

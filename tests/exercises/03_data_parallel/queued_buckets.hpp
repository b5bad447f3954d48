#pragma once
/// @file
/// Buckets that a link serves one by one, and what overlap looks like after a typical mistake.

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "chapters/03_data_parallel/overlap_condition.hpp"
#include "tests/support/suspects.hpp"

namespace ultra::data_parallel::test {

using ultra::test::Suspect;

/// Both numbers are the same few products and sums in another order.
inline constexpr double kRoundings = 1e-12;

inline bool close(double a, double b) { return ultra::test::close(a, b, kRoundings); }

// What may have gone wrong ------------------------------------------------------------------------

inline constexpr const char* kFourFlop =
    "the backward pass takes 4 FLOP per token and parameter; the other 2 of the 6 are the forward "
    "pass, during which there is nothing to send.";
inline constexpr const char* kShare =
    "each rank sends 2 (N - 1) / N of the bytes: one replica sends none, many send just under 2.";
inline constexpr const char* kTwoWays =
    "an all-reduce sends (N - 1) / N of the bytes twice: to reduce, and to gather.";
inline constexpr const char* kLastBucket =
    "the last bucket is always exposed: it is full only when the backward pass ends.";
inline constexpr const char* kFirstBucket =
    "the link cannot begin before the first bucket is full, after T_b / B seconds: T_b (B - 1) / B "
    "are left to hide in.";
inline constexpr const char* kOneBucket = "a bucket holds G / B bytes, not all of G.";
inline constexpr const char* kLatency =
    "every bucket pays the latency of its own 2 (N - 1) messages: more buckets, more latency.";

inline std::string diagnosis(double found, double expected, const std::vector<Suspect>& suspects) {
  return ultra::test::diagnosis(found, expected, suspects, kRoundings);
}

/// One bucket around the ring, step by step: 2 (N - 1) messages of a chunk each, half of them
/// reduced.
inline double walked_bucket(const OverlapCase& c) {
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
inline double queued_exposed(const OverlapCase& c) {
  const double bucket = walked_bucket(c);
  double link_free = 0.0;
  for (std::size_t i = 1; i <= c.buckets; ++i) {
    const double ready =
        c.backward_seconds * static_cast<double>(i) / static_cast<double>(c.buckets);
    link_free = std::max(link_free, ready) + bucket;
  }
  return link_free - c.backward_seconds;
}

inline std::vector<Suspect> wrong_exposed(const OverlapCase& c) {
  const auto buckets = static_cast<double>(c.buckets);
  const double bucket = walked_bucket(c);
  const double all = buckets * bucket;
  const double hiding = c.backward_seconds * (buckets - 1.0) / buckets;
  return {
      {all - c.backward_seconds, c.buckets == 1 ? kLastBucket : kFirstBucket},
      {std::max(bucket, all - c.backward_seconds), kFirstBucket},
      {std::max(0.0, all - c.backward_seconds), kLastBucket},
      {std::max(0.0, all - hiding), kLastBucket},
      {all - hiding, kLastBucket},
      {bucket, "buckets travel one after the other: one that is ready waits for those before it."}};
}

inline std::vector<Suspect> wrong_bucket(const OverlapCase& c) {
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

}  // namespace ultra::data_parallel::test

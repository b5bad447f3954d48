#pragma once
/// @file
/// A ring walked step by step, and what its cost looks like after a typical mistake.

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "chapters/02_collectives/ring_cost.hpp"
#include "tests/support/suspects.hpp"

namespace ultra::collectives::test {

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

inline RingCost reduce_scatter(const Question& q) {
  return ring_reduce_scatter_cost(q.ranks, q.count, q.element_bytes, q.link);
}
inline RingCost all_gather(const Question& q) {
  return ring_all_gather_cost(q.ranks, q.count, q.element_bytes, q.link);
}
inline RingCost all_reduce(const Question& q) {
  return ring_all_reduce_cost(q.ranks, q.count, q.element_bytes, q.link);
}

/// Both numbers are the same sum in another order: a few thousand roundings.
inline constexpr double kRoundings = 1e-11;

inline bool close(double a, double b) { return ultra::test::close(a, b, kRoundings); }

// A walk of the ring, step by step: the oracle ----------------------------------------------------

/// Bytes of chunk `index` of count elements in n chunks; the longer ones come first.
inline double chunk_bytes(const Question& q, int index) {
  const int n = q.ranks;
  const auto parts = static_cast<std::size_t>(n);
  const auto chunk = static_cast<std::size_t>(((index % n) + n) % n);
  const std::size_t elements = q.count / parts + (chunk < q.count % parts ? 1 : 0);
  return static_cast<double>(elements * q.element_bytes);
}

inline double floor_chunk_bytes(const Question& q) {
  return static_cast<double>(q.count / static_cast<std::size_t>(q.ranks) * q.element_bytes);
}

/// Takes n - 1 steps from `ready`, the time at which each rank begins; in step s rank r sends chunk
/// r - offset - s to r + 1. A message starts when both its ends are ready.
inline std::vector<double> walk(const Question& q, std::vector<double> ready, int offset,
                                double gamma) {
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

inline double latest(const std::vector<double>& times) {
  return *std::max_element(times.begin(), times.end());
}

inline std::vector<double> start(const Question& q) {
  return std::vector<double>(static_cast<std::size_t>(q.ranks), 0.0);
}
inline double walked_reduce_scatter(const Question& q) {
  return latest(walk(q, start(q), 1, q.link.gamma));
}
inline double walked_all_gather(const Question& q) { return latest(walk(q, start(q), 0, 0.0)); }
inline double walked_all_reduce(const Question& q) {
  return latest(walk(q, walk(q, start(q), 1, q.link.gamma), 0, 0.0));
}

inline constexpr const char* kTwoTrips =
    "an all-reduce takes two trips around the ring: a reduce-scatter and an all-gather.";
inline constexpr const char* kOneChunk =
    "each message carries one chunk, S / N: the volume is 2 S (N - 1) / N, not 2 S (N - 1).";
inline constexpr const char* kAlphaPerMessage =
    "alpha is paid for every message, N - 1 times per trip, not once per collective.";
inline constexpr const char* kLongestChunk =
    "the longest chunk sets the pace: ceil(count / N) elements, where the count does not divide.";
inline constexpr const char* kLinks =
    "a chunk passes N - 1 links on its way around the ring: its last stop need not pass it on.";
inline constexpr const char* kBytes = "beta and gamma are per byte: multiply by element_bytes.";

inline std::string diagnosis(double found, double expected, const std::vector<Suspect>& suspects) {
  return ultra::test::diagnosis(found, expected, suspects, kRoundings);
}

/// The seconds that typical mistakes give, for a collective of `reducing` trips that reduce and
/// `storing` trips that do not.
inline std::vector<Suspect> wrong_seconds(const Question& q, double reducing, double storing) {
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

}  // namespace ultra::collectives::test

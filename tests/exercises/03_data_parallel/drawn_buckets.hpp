#pragma once
/// @file
/// Random buckets, what must have gone when some gradients are ready, and what the difference means.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "chapters/03_data_parallel/bucket_queue.hpp"
#include "tests/support/random.hpp"

namespace ultra::data_parallel::test {

using ultra::test::Random;

using Numbers = std::vector<std::size_t>;

inline std::size_t parameters_in(const std::vector<Bucket>& buckets) {
  std::size_t count = 0;
  for (const Bucket& bucket : buckets) count += bucket.parameters.size();
  return count;
}

/// 0, 1, ..., n - 1 in random order.
inline Numbers shuffled(Random& random, std::size_t n) {
  Numbers numbers(n);
  std::iota(numbers.begin(), numbers.end(), 0);
  for (std::size_t i = n; i > 1; --i) std::swap(numbers[i - 1], numbers[random.between(0, i - 1)]);
  return numbers;
}

/// Random parameters in buckets of 1 to 4; bucket b counts 10 + b elements, so that ranks that
/// exchange different buckets notice.
inline std::vector<Bucket> draw_buckets(Random& random) {
  const std::size_t n = random.between(1, 14);
  std::vector<Bucket> buckets;
  std::size_t room = 0;
  for (const std::size_t parameter : shuffled(random, n)) {
    if (room == 0) {
      buckets.push_back({.parameters = {}, .count = 10 + buckets.size()});
      room = random.between(1, 4);
    }
    buckets.back().parameters.push_back(parameter);
    --room;
  }
  return buckets;
}

inline bool is_full(const Bucket& bucket, const Numbers& ready) {
  return std::all_of(bucket.parameters.begin(), bucket.parameters.end(), [&](std::size_t p) {
    return std::find(ready.begin(), ready.end(), p) != ready.end();
  });
}

/// What must have gone when the gradients `ready` are there: the first buckets, as far as all are
/// full.
inline Numbers must_have_gone(const std::vector<Bucket>& buckets, const Numbers& ready) {
  Numbers gone;
  while (gone.size() < buckets.size() && is_full(buckets[gone.size()], ready)) {
    gone.push_back(gone.size());
  }
  return gone;
}

inline std::string hint(const std::vector<Bucket>& buckets, const Numbers& ready,
                        const Numbers& gone) {
  for (const std::size_t bucket : gone) {
    if (bucket >= buckets.size()) return "Hint: there is no such bucket.";
    if (!is_full(buckets[bucket], ready)) {
      return fmt::format("Hint: bucket {} went before all of its gradients were ready.", bucket);
    }
  }
  for (std::size_t i = 0; i < gone.size(); ++i) {
    if (gone[i] != i) {
      return "Hint: buckets go in their order, not in that of their completion: on another rank "
             "gradients may become ready in another order, and all ranks must exchange the same "
             "bucket. One that is full waits for those before it.";
    }
  }
  return "Hint: a bucket is late: one gradient can let several buckets go, those that were full "
         "and waited for it.";
}

inline std::string text(const std::vector<Bucket>& buckets) {
  std::string all;
  for (const Bucket& bucket : buckets) {
    all += fmt::format(" [{}]", fmt::join(bucket.parameters, " "));
  }
  return all;
}

}  // namespace ultra::data_parallel::test

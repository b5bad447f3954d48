// Contract of exercise 03.3: which buckets go when, for any order in which gradients become ready.
#include "chapters/03_data_parallel/bucket_queue.hpp"

#include <fmt/ranges.h>

#include "tests/support/toolbox.hpp"

namespace ultra::data_parallel {
namespace {

using ultra::test::Random;

using Numbers = std::vector<std::size_t>;

std::size_t parameters_in(const std::vector<Bucket>& buckets) {
  std::size_t count = 0;
  for (const Bucket& bucket : buckets) count += bucket.parameters.size();
  return count;
}

/// 0, 1, ..., n - 1 in random order.
Numbers shuffled(Random& random, std::size_t n) {
  Numbers numbers(n);
  std::iota(numbers.begin(), numbers.end(), 0);
  random.shuffle(numbers);
  return numbers;
}

/// Random parameters in buckets of 1 to 4; bucket b counts 10 + b elements, so that ranks that
/// exchange different buckets notice.
std::vector<Bucket> draw_buckets(Random& random) {
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

bool is_full(const Bucket& bucket, const Numbers& ready) {
  return std::all_of(bucket.parameters.begin(), bucket.parameters.end(), [&](std::size_t p) {
    return std::find(ready.begin(), ready.end(), p) != ready.end();
  });
}

/// What must have gone when the gradients `ready` are there: the first buckets, as far as all are
/// full.
Numbers must_have_gone(const std::vector<Bucket>& buckets, const Numbers& ready) {
  Numbers gone;
  while (gone.size() < buckets.size() && is_full(buckets[gone.size()], ready)) {
    gone.push_back(gone.size());
  }
  return gone;
}

std::string hint(const std::vector<Bucket>& buckets, const Numbers& ready, const Numbers& gone) {
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

std::string text(const std::vector<Bucket>& buckets) {
  std::string all;
  for (const Bucket& bucket : buckets) {
    all += fmt::format(" [{}]", fmt::join(bucket.parameters, " "));
  }
  return all;
}

class BucketQueueTest : public ultra::test::RandomTest {
 protected:
  /// A backward pass that makes gradients in that order.
  void expect_pass(BucketQueue& queue, const std::vector<Bucket>& buckets, const Numbers& order) {
    Numbers ready;
    for (const std::size_t parameter : order) {
      ready.push_back(parameter);
      queue.ready(parameter);
      const Numbers expected = must_have_gone(buckets, ready);
      EXPECT_EQ(gone, expected) << "buckets that have gone, parameters being ready in the order "
                                << fmt::format("{}", fmt::join(ready, " "))
                                << "; buckets:" << text(buckets) << "\n"
                                << hint(buckets, ready, gone);
      if (gone != expected) return;
    }
  }

  BucketQueue::Flush note() {
    return [this](std::size_t bucket) { gone.push_back(bucket); };
  }

  Numbers gone;  ///< buckets, in the order in which they were flushed
};

TEST_F(BucketQueueTest, EveryBucketGoesAsSoonAsItMayInEveryPass) {
  for (int round = 0; round < 60 && !HasFailure(); ++round) {
    const std::vector<Bucket> buckets = draw_buckets(random);
    const std::size_t n = parameters_in(buckets);
    BucketQueue queue(buckets, note());
    gone.clear();
    expect_pass(queue, buckets, shuffled(random, n));
    EXPECT_NO_THROW(queue.expect_all_flushed());
    SCOPED_TRACE("Hint: restart() forgets everything: what is ready, and what has gone.");
    queue.restart();
    const Numbers part = shuffled(random, n);
    const std::size_t aborted_after = random.between(0, n);
    for (std::size_t i = 0; i < aborted_after; ++i) queue.ready(part[i]);
    for (int pass = 0; pass < 2 && !HasFailure(); ++pass) {
      gone.clear();
      queue.restart();
      expect_pass(queue, buckets, shuffled(random, n));
    }
  }
}

TEST_F(BucketQueueTest, AGradientMayNotBecomeReadyTwice) {
  for (int i = 0; i < 20 && !HasFailure(); ++i) {
    const std::vector<Bucket> buckets = draw_buckets(random);
    BucketQueue queue(buckets, note());
    const Numbers order = shuffled(random, parameters_in(buckets));
    const std::size_t count = random.between(1, order.size());
    for (std::size_t p = 0; p < count; ++p) queue.ready(order[p]);
    const std::size_t again = order[random.between(0, count - 1)];
    gone.clear();
    EXPECT_THAT(message_of<InternalError>([&] { queue.ready(again); }),
                HasSubstr(std::to_string(again)))
        << "Hint: ready() throws InternalError, with the number, for a parameter that is ready "
           "already: its bucket may be on its way, and a second addition to the gradient would be "
           "lost or sent half.";
    EXPECT_TRUE(gone.empty()) << "Hint: a gradient that comes twice lets no bucket go.";
  }
}

TEST_F(BucketQueueTest, AGradientThatIsMissingIsReported) {
  for (int i = 0; i < 20 && !HasFailure(); ++i) {
    const std::vector<Bucket> buckets = draw_buckets(random);
    BucketQueue queue(buckets, note());
    Numbers order = shuffled(random, parameters_in(buckets));
    const std::size_t missing = order.back();
    order.pop_back();
    for (const std::size_t parameter : order) queue.ready(parameter);
    EXPECT_THAT(message_of<InternalError>([&] { queue.expect_all_flushed(); }),
                HasSubstr(std::to_string(missing)))
        << "Hint: expect_all_flushed() throws InternalError with the number of a parameter that is "
           "not ready. Without it, the other ranks would wait for a bucket that never comes.";
  }
}

TEST_F(BucketQueueTest, BucketsHoldEachParameterOnce) {
  const auto expect_rejected = [](const std::vector<Bucket>& buckets) {
    EXPECT_NE(message_of<InternalError>([&] { BucketQueue(buckets, [](std::size_t) {}); }), "")
        << "buckets:" << text(buckets);
  };
  expect_rejected({{{1, 0}, 1}, {{1}, 1}});
  expect_rejected({{{0}, 1}, {{2}, 1}});
  BucketQueue queue({{{1, 0}, 1}}, note());
  EXPECT_NE(message_of<InternalError>([&] { queue.ready(2); }), "") << "there is no parameter 2";
}

}  // namespace
}  // namespace ultra::data_parallel

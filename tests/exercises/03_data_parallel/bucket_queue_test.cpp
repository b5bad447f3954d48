// Contract of exercise 03.3: which buckets go when, for any order in which gradients become ready.
#include "chapters/03_data_parallel/bucket_queue.hpp"

#include <fmt/ranges.h>

#include "common/comm/comm_error.hpp"
#include "common/comm/run_ranks.hpp"
#include "tests/exercises/03_data_parallel/drawn_buckets.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::data_parallel {
namespace {

using namespace test;

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

TEST_F(BucketQueueTest, GradientsInBackwardOrderFlushBucketByBucket) {
  const std::vector<Bucket> buckets = {{{4, 3}, 1}, {{2}, 1}, {{1, 0}, 1}};
  BucketQueue queue(buckets, note());
  expect_pass(queue, buckets, {4, 3, 2, 1, 0});
  EXPECT_NO_THROW(queue.expect_all_flushed());
}

TEST_F(BucketQueueTest, EveryBucketGoesAsSoonAsItMay) {
  for (int i = 0; i < 100 && !HasFailure(); ++i) {
    const std::vector<Bucket> buckets = draw_buckets(random);
    gone.clear();
    BucketQueue queue(buckets, note());
    expect_pass(queue, buckets, shuffled(random, parameters_in(buckets)));
    EXPECT_NO_THROW(queue.expect_all_flushed());
  }
}

TEST_F(BucketQueueTest, EveryPassStartsAgain) {
  for (int round = 0; round < 20 && !HasFailure(); ++round) {
    const std::vector<Bucket> buckets = draw_buckets(random);
    const std::size_t n = parameters_in(buckets);
    BucketQueue queue(buckets, note());
    const Numbers part = shuffled(random, n);
    const std::size_t aborted_after = random.between(0, n);
    for (std::size_t i = 0; i < aborted_after; ++i) queue.ready(part[i]);
    for (int pass = 0; pass < 3 && !HasFailure(); ++pass) {
      SCOPED_TRACE("Hint: restart() forgets everything: what is ready, and what has gone.");
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
    std::string message;
    gone.clear();
    try {
      queue.ready(again);
    } catch (const InternalError& error) {
      message = error.what();
    }
    EXPECT_NE(message.find(std::to_string(again)), std::string::npos)
        << "message: '" << message << "'\nHint: ready() throws InternalError, with the number, for "
        << "a parameter that is ready already: its bucket may be on its way, and a second addition "
           "to the gradient would be lost or sent half.";
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
    std::string message;
    try {
      queue.expect_all_flushed();
    } catch (const InternalError& error) {
      message = error.what();
    }
    EXPECT_NE(message.find(std::to_string(missing)), std::string::npos)
        << "message: '" << message << "'\nHint: expect_all_flushed() throws InternalError with the "
        << "number of a parameter that is not ready. Without it, the other ranks would wait for a "
           "bucket that never comes.";
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

TEST_F(BucketQueueTest, RanksWhoseGradientsComeInAnyOrderExchangeTheSameBuckets) {
  for (int i = 0; i < 5 && !HasFailure(); ++i) {
    const std::vector<Bucket> buckets = draw_buckets(random);
    const std::uint64_t seed_of_orders = random.between(0, 1'000'000);
    const auto replica = [&](Communicator& dp) {
      std::vector<Tensor> data;
      std::vector<Work> works;
      for (const Bucket& bucket : buckets) {
        data.push_back(Tensor::zeros(Device::cpu(), {bucket.count}, DType::kF32));
      }
      BucketQueue queue(
          buckets, [&](std::size_t bucket) { works.push_back(dp.all_reduce(data.at(bucket))); });
      Random own(seed_of_orders + static_cast<std::uint64_t>(dp.rank()));
      for (const std::size_t p : shuffled(own, parameters_in(buckets))) queue.ready(p);
      queue.expect_all_flushed();
      for (Work& work : works) work.wait();
    };
    try {
      run_ranks(3, replica);
    } catch (const CommError& error) {
      ADD_FAILURE() << error.what() << "\nHint: buckets go in their order, not in that of their "
                    << "completion, which differs between ranks.";
    }
  }
}

}  // namespace
}  // namespace ultra::data_parallel

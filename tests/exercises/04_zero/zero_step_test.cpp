// Contract of exercise 04.2: sums of whole numbers, and training against one rank that has
// everything.
#include "chapters/04_zero/zero_step.hpp"

#include "tests/exercises/04_zero/sharded_rank.hpp"
#include "tests/exercises/04_zero/summed_buckets.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using namespace test;

using test::Keeps;
using test::Training;
using test::Values;

// The exchange ------------------------------------------------------------------------------------

class ZeroStep : public ultra::test::RandomTest {
 protected:
  Exchange draw(int ranks, int node_size) {
    Exchange e{.ranks = ranks,
               .node_size = node_size,
               .dtype = random.pick({DType::kF32, DType::kF64}),
               .seed = seed};
    e.padded.resize(random.between(1, 4));
    for (std::size_t& padded : e.padded) padded = as_size(ranks) * random.between(0, 9);
    return e;
  }

  static void expect_exchange(const Exchange& e, const RankOptions& options = {}) {
    const auto rank = [&](Communicator& dp) {
      const ShardGroups groups = make_shard_groups(dp, as_size(e.node_size));
      std::vector<Tensor> buckets;
      std::vector<std::unique_ptr<ReduceScatterExchange>> exchanges;
      for (std::size_t b = 0; b < e.padded.size(); ++b) {
        buckets.push_back(e.bucket(Device::cpu(), dp.rank(), b));
        exchanges.push_back(std::make_unique<ReduceScatterExchange>(groups));
        exchanges.back()->start(buckets.back());
      }
      for (const auto& exchange : exchanges) exchange->finish();
      for (std::size_t b = 0; b < e.padded.size(); ++b) expect_sum(e, groups, b, buckets[b]);
      expect_sent_by_exchange(e, dp.stats());
    };
    ultra::test::on_ranks(e.ranks, e.str(), rank, options);
  }

  Training draw_training(int ranks, DType dtype) {
    Training training{.counts = {},
                      .ranks = ranks,
                      .dtype = dtype,
                      .clip_norm = random.pick({0.0, test::kClipNorm, test::kClipNorm}),
                      .seed = seed};
    training.counts.resize(random.between(1, 3));
    for (auto& array : training.counts) {
      array.resize(random.between(1, 4));
      for (std::size_t& count : array) count = random.between(0, 15);
    }
    training.counts[0][0] = random.between(10, 30);
    return training;
  }
};

TEST_F(ZeroStep, EachRankGetsItsShardOfTheSum) {
  for (int ranks = 1; ranks <= 5 && !HasFailure(); ++ranks) {
    expect_exchange(draw(ranks, ranks));
    expect_exchange(draw(ranks, ranks), ultra::test::in_rank_order());
  }
}

TEST_F(ZeroStep, CopiesOfAShardAreAddedUpToo) {
  for (const int node_size : {1, 2, 3}) {
    for (const int nodes : {2, 3}) {
      if (!HasFailure()) expect_exchange(draw(nodes * node_size, node_size));
    }
  }
}

TEST_F(ZeroStep, TheExchangeEndsWhenTheLastRankHasJoined) {
  Exchange e = draw(3, 3);
  e.padded = {3 * random.between(5, 9)};
  ultra::test::on_ranks(3, e.str(), [&](Communicator& dp) {
    const ShardGroups groups = make_shard_groups(dp, std::nullopt);
    const Tensor bucket = e.bucket(Device::cpu(), dp.rank(), 0);
    ReduceScatterExchange exchange(groups);
    ultra::test::come_late(dp);
    exchange.start(bucket);
    exchange.finish();
    expect_sum(e, groups, 0, bucket,
               "finish() waits for the reduce-scatter: without it the optimizer reads sums that "
               "are not complete.");
  });
}

TEST_F(ZeroStep, TheExchangeWorksInPlaceAndLetsGoOfTheBucket) {
  Exchange e = draw(3, 3);
  e.padded = {300};
  const auto rank = [&](Communicator& dp) {
    const Device own = Device::cpu();
    ReduceScatterExchange exchange(make_shard_groups(dp, std::nullopt));
    Tensor bucket = Tensor::zeros(own, {300}, e.dtype, MemoryCategory::kGradients);
    const std::size_t bytes = bucket.nbytes();
    exchange.start(bucket);
    exchange.finish();
    bucket = Tensor();
    EXPECT_EQ(own.memory().peak_total().bytes, bytes)
        << "bytes at the peak\nHint: the shard is a slice of the bucket, so that the "
           "reduce-scatter works in place.";
    EXPECT_EQ(own.memory().current().total(), 0U)
        << "bytes of the bucket\nHint: finish() lets go of the bucket's memory: a slice of it "
           "keeps all of it alive.";
  };
  ultra::test::on_ranks(3, e.str(), rank, ultra::test::on_call());
}

/// Bit for bit: one rank adds up in the same order. Two copies of a shard add up in another one.
TEST_F(ZeroStep, TrainsLikeOneRank) {
  const auto expect_training = [&](int ranks, DType dtype, Keeps keeps, int node_size) {
    if (HasFailure()) return;
    const Training training = draw_training(ranks, dtype);
    const std::vector<test::Expected> expected = test::train_on_one_rank(training);
    const auto rank = [&](Communicator& dp) {
      test::ShardedRank sharded(training, make_shard_groups(dp, as_size(node_size)), keeps);
      for (int step = 0; step < Training::kSteps; ++step) {
        sharded.step(step, expected[as_size(step)]);
      }
    };
    ultra::test::on_ranks(ranks, training.str(), rank,
                          ultra::test::on_call(ultra::test::in_rank_order()));
  };
  for (const Keeps keeps : {Keeps::kEverything, Keeps::kItsShard}) {
    for (const int ranks : {2, 3, 4, 5, 1}) {
      for (const DType dtype : ultra::test::kFloatDTypes) {
        expect_training(ranks, dtype, keeps, ranks);
      }
    }
    expect_training(4, DType::kF64, keeps, 2);
  }
}

}  // namespace
}  // namespace ultra::zero

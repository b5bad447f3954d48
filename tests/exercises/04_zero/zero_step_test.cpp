// Contract of exercise 04.2: sums of whole numbers, and training against one rank that has
// everything.
#include "chapters/04_zero/zero_step.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/exercises/04_zero/sharded_rank.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using namespace test;
using test::Keeps;
using test::Training;
using test::Values;

std::size_t as_size(int number) { return static_cast<std::size_t>(number); }

/// Buckets, the ranks that exchange them, and how many of them share a copy.
struct Exchange {
  int ranks = 1;
  int node_size = 1;
  DType dtype = DType::kF32;
  std::vector<std::size_t> padded{};  ///< elements of each bucket; the ranks divide them
  std::uint64_t seed = 0;

  [[nodiscard]] int nodes() const { return ranks / node_size; }
  [[nodiscard]] std::string str() const {
    return fmt::format("{} nodes of {} ranks, {}, buckets of {}", nodes(), node_size,
                       to_string(dtype), ::testing::PrintToString(padded));
  }
  /// Sums over ranks [begin, end), each element a multiple of the number of ranks: what is divided by
  /// it is a whole number, too.
  [[nodiscard]] Values sum_over(int begin, int end, std::size_t bucket, Range range) const {
    Values sums;
    for (std::size_t i = range.begin; i < range.end; ++i) {
      sums.push_back(0);
      for (int rank = begin; rank < end; ++rank) {
        sums.back() += ranks * ultra::test::whole_number(seed, rank, bucket, i);
      }
    }
    return sums;
  }
  [[nodiscard]] Tensor bucket(const Device& device, int rank, std::size_t number) const {
    const Values values = sum_over(rank, rank + 1, number, {0, padded[number]});
    return Tensor::from<double>(device, {values.size()}, values)
        .to(dtype, MemoryCategory::kGradients);
  }
};

Values divided(Values values, double by) {
  for (double& value : values) value /= by;
  return values;
}

std::string hint_for_sum(const Exchange& e, int rank, std::size_t bucket, Range own,
                         const Values& found) {
  struct Mistake {
    int copies;  ///< that it takes to tell
    Values gives;
    const char* hint;
  };
  constexpr const char* kBothAddUp =
      "both operations add up: over the shards' ranks, and between the copies.";
  const Values sum = e.sum_over(0, e.ranks, bucket, own);
  const int node = rank / e.node_size * e.node_size;
  for (const auto& [copies, gives, hint] :
       {Mistake{2, e.sum_over(node, node + e.node_size, bucket, own),
                "the sum over one copy only: the ranks of `replicas` hold the same shard, and add "
                "it up, too."},
        Mistake{1, e.sum_over(rank, rank + 1, bucket, own),
                "these are this rank's own gradients: nothing was reduced into the slice of the "
                "bucket that is its shard."},
        Mistake{2, divided(sum, e.node_size), kBothAddUp},
        Mistake{2, divided(sum, e.nodes()), kBothAddUp},
        Mistake{1, divided(sum, e.ranks),
                "this is the average, N times too small: each rank's gradients are a share of the "
                "whole batch's, and shares are added up."}}) {
    if (e.nodes() >= copies && found == gives) return hint;
  }
  return "shard r of n elements on S ranks is the slice [r n/S, (r+1) n/S) of the bucket.";
}

void expect_sum(const Exchange& e, const ShardGroups& groups, std::size_t bucket,
                const Tensor& flat, const std::string& hint = "") {
  const std::size_t size = flat.numel() / as_size(groups.shards.size());
  const std::size_t begin = as_size(groups.shards.rank()) * size;
  const Range own{begin, begin + size};
  const Tensor shard = flat.slice(0, own);
  EXPECT_TRUE(ultra::test::all_equal(shard, e.sum_over(0, e.ranks, bucket, own)))
      << "bucket " << bucket << ", shard of rank " << groups.dp.rank() << "\nHint: "
      << (hint.empty() ? hint_for_sum(e, groups.dp.rank(), bucket, own, shard.to_vector()) : hint);
}

void expect_sent_by_exchange(const Exchange& e, const CommStats& sent) {
  std::size_t inside = 0;
  std::size_t between = 0;
  for (const std::size_t padded : e.padded) {
    const std::size_t bytes = padded * size_of(e.dtype);
    inside += bytes / as_size(e.node_size) * as_size(e.node_size - 1);
    between += 2 * (bytes / as_size(e.node_size)) / as_size(e.nodes()) * as_size(e.nodes() - 1);
  }
  EXPECT_EQ(sent[OpKind::kReduceScatter].sent_bytes, inside)
      << "bytes sent in reduce-scatters, (S-1)/S of the buckets";
  EXPECT_EQ(sent.sent_bytes(), inside + between)
      << "bytes sent in all\nHint: a reduce-scatter sends half of what an all-reduce does: each "
         "rank gets its own shard of the sum, and nothing else. Between copies only the shard is "
         "sent.";
}

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

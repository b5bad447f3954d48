// Contract of exercise 04.2: sums of whole numbers, and training against one rank that has
// everything.
#include "chapters/04_zero/zero_step.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chapters/04_zero/flat_layout.hpp"
#include "common/optim/clip.hpp"
#include "tests/exercises/04_zero/one_rank.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/on_ranks.hpp"
#include "tests/support/random.hpp"

namespace ultra::zero {
namespace {

using test::Values;
using ultra::test::all_equal;

std::size_t as_size(int number) { return static_cast<std::size_t>(number); }

Tensor tensor_of(const Device& device, const Values& values, DType dtype, MemoryCategory category) {
  return Tensor::from<double>(device, {values.size()}, values).to(dtype, category);
}

// The exchange ------------------------------------------------------------------------------------

constexpr const char* kWait =
    "Hint: finish() waits for the reduce-scatter: without it the optimizer reads sums that are not "
    "complete.";
constexpr const char* kLetGo =
    "Hint: finish() lets go of the bucket's memory: a slice of it keeps all of it alive.";

/// Buckets, the ranks that exchange them, and how many of them share a copy.
struct Exchange {
  int ranks = 1;
  int node_size = 1;
  DType dtype = DType::kF32;
  std::vector<std::size_t> padded;  ///< elements of each bucket; the ranks divide them
  std::uint64_t seed = 0;

  [[nodiscard]] int nodes() const { return ranks / node_size; }
  [[nodiscard]] std::string str() const {
    std::string all =
        fmt::format("{} nodes of {} ranks, {}, buckets of", nodes(), node_size, to_string(dtype));
    for (const std::size_t count : padded) all += fmt::format(" {}", count);
    return all;
  }
  /// A multiple of the number of ranks: what is divided by it is a whole number, too.
  [[nodiscard]] double element(int rank, std::size_t bucket, std::size_t i) const {
    return ranks * ultra::test::whole_number(seed, rank, bucket, i);
  }
  [[nodiscard]] Values of_rank(int rank, std::size_t bucket, Range range) const {
    return sum_over(rank, rank + 1, bucket, range);
  }
  [[nodiscard]] Values sum_over(int begin, int end, std::size_t bucket, Range range) const {
    Values sums;
    for (std::size_t i = range.begin; i < range.end; ++i) {
      sums.push_back(0);
      for (int rank = begin; rank < end; ++rank) sums.back() += element(rank, bucket, i);
    }
    return sums;
  }
};

Values divided(Values values, double by) {
  for (double& value : values) value /= by;
  return values;
}

std::string hint_for_sum(const Exchange& e, int rank, std::size_t bucket, Range own,
                         const Values& found) {
  const Values sum = e.sum_over(0, e.ranks, bucket, own);
  const int node = rank / e.node_size * e.node_size;
  const Values of_node = e.sum_over(node, node + e.node_size, bucket, own);
  if (e.nodes() > 1 && found == of_node) {
    return "Hint: the sum over one copy only: the ranks of `replicas` hold the same shard, and add "
           "it up, too.";
  }
  if (found == e.of_rank(rank, bucket, own)) {
    return "Hint: these are this rank's own gradients: nothing was reduced into the slice of the "
           "bucket that is its shard.";
  }
  if (e.nodes() > 1 && (found == divided(sum, e.node_size) || found == divided(sum, e.nodes()))) {
    return "Hint: both operations add up: over the shards' ranks, and between the copies.";
  }
  if (found == divided(sum, e.ranks)) {
    return "Hint: this is the average, N times too small: each rank's gradients are a share of the "
           "whole batch's, and shares are added up.";
  }
  return "Hint: shard r of n elements on S ranks is the slice [r n/S, (r+1) n/S) of the bucket.";
}

void expect_sum(const Exchange& e, const ShardGroups& groups, std::size_t bucket,
                const Tensor& flat, const std::string& hint = "") {
  const std::size_t size = flat.numel() / as_size(groups.shards.size());
  const std::size_t begin = as_size(groups.shards.rank()) * size;
  const Range own{begin, begin + size};
  const Tensor shard = flat.slice(0, own);
  EXPECT_TRUE(all_equal(shard, e.sum_over(0, e.ranks, bucket, own)))
      << "bucket " << bucket << ", shard of rank " << groups.dp.rank() << "\n"
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
         "rank gets its own shard of the sum, and nothing else. Between copies only the shard "
         "is sent.";
}

class ZeroStep : public ultra::test::RandomTest {
 protected:
  Exchange draw(int ranks, int node_size) {
    Exchange e{.ranks = ranks,
               .node_size = node_size,
               .dtype = random.pick({DType::kF32, DType::kF64}),
               .padded = {},
               .seed = seed};
    const std::size_t buckets = random.between(1, 4);
    for (std::size_t b = 0; b < buckets; ++b) {
      e.padded.push_back(as_size(ranks) * random.between(0, 9));
    }
    return e;
  }

  static void expect_exchange(const Exchange& e, const RankOptions& options) {
    ultra::test::on_ranks(
        e.ranks, e.str(),
        [&](Communicator& dp) {
          const Device device = Device::cpu();
          const ShardGroups groups = make_shard_groups(dp, as_size(e.node_size));
          std::vector<Tensor> buckets;
          std::vector<std::unique_ptr<ReduceScatterExchange>> exchanges;
          for (std::size_t b = 0; b < e.padded.size(); ++b) {
            buckets.push_back(tensor_of(device, e.of_rank(dp.rank(), b, {0, e.padded[b]}), e.dtype,
                                        MemoryCategory::kGradients));
            exchanges.push_back(std::make_unique<ReduceScatterExchange>(groups));
            exchanges.back()->start(buckets.back());
          }
          for (const auto& exchange : exchanges) exchange->finish();
          for (std::size_t b = 0; b < e.padded.size(); ++b) {
            expect_sum(e, groups, b, buckets[b]);
          }
          expect_sent_by_exchange(e, dp.stats());
        },
        options);
  }
};

TEST_F(ZeroStep, EachRankGetsItsShardOfTheSum) {
  for (int ranks = 1; ranks <= 5 && !HasFailure(); ++ranks) {
    expect_exchange(draw(ranks, ranks), {});
    expect_exchange(draw(ranks, ranks), ultra::test::in_rank_order());
  }
}

TEST_F(ZeroStep, CopiesOfAShardAreAddedUpToo) {
  for (const int node_size : {1, 2, 3}) {
    for (const int nodes : {2, 3}) {
      if (!HasFailure()) expect_exchange(draw(nodes * node_size, node_size), {});
    }
  }
}

TEST_F(ZeroStep, TheExchangeEndsWhenTheLastRankHasJoined) {
  Exchange e = draw(3, 3);
  e.padded = {3 * random.between(5, 9)};
  ultra::test::on_ranks(3, e.str(), [&](Communicator& dp) {
    const ShardGroups groups = make_shard_groups(dp, std::nullopt);
    const Tensor bucket = tensor_of(Device::cpu(), e.of_rank(dp.rank(), 0, {0, e.padded[0]}),
                                    e.dtype, MemoryCategory::kGradients);
    ReduceScatterExchange exchange(groups);
    ultra::test::come_late(dp);
    exchange.start(bucket);
    exchange.finish();
    expect_sum(e, groups, 0, bucket, kWait);
  });
}

TEST_F(ZeroStep, TheExchangeWorksInPlaceAndLetsGoOfTheBucket) {
  const Exchange e = draw(3, 3);
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
    EXPECT_EQ(own.memory().current().total(), 0U) << "bytes of the bucket\n" << kLetGo;
  };
  ultra::test::on_ranks(3, e.str(), rank, ultra::test::on_call());
}

// The step ----------------------------------------------------------------------------------------

using test::Expected;
using test::Training;

/// Which weights a rank keeps.
enum class Keeps { kEverything, kItsShard };

/// One rank of a sharded training.
class Sharded {
 public:
  Sharded(const Training& training, const ShardGroups& groups, Keeps keeps)
      : training_(training), groups_(groups), keeps_(keeps) {
    for (std::size_t a = 0; a < training.counts.size(); ++a) {
      layouts_.push_back(training.layout(a, groups.shards.size()));
      const Tensor whole = training.weights(device_, a, layouts_[a].padded);
      const Tensor shard = whole.slice(0, own(a));
      weights_.push_back(keeps == Keeps::kEverything ? whole
                                                     : shard.clone(MemoryCategory::kParameters));
    }
  }

  /// Makes a step and holds it against what one rank has.
  void step(int step, const Expected& expected) {
    const CommStats before = groups_.dp.stats();
    add_up(step);
    if (step + 1 == Training::kSteps) ultra::test::come_late(groups_.dp);
    update(step, {test::kLearningRate, expected.norm, training_.clip_norm});
    expect_sent(before);
    for (std::size_t a = 0; a < weights_.size(); ++a) expect_weights(a, step, expected);
    updates_.clear();
  }

 private:
  /// Adds up the gradients of a step: updates_ has this rank's shard of the sum.
  void add_up(int step) {
    std::vector<std::unique_ptr<ReduceScatterExchange>> exchanges;
    for (std::size_t a = 0; a < weights_.size(); ++a) {
      const Tensor bucket =
          training_.gradient(device_, a, layouts_[a].padded, step, groups_.dp.rank());
      for (const Piece& piece : pieces_of(layouts_[a], groups_.shards.rank())) {
        updates_.push_back({.value = shard(a).slice(0, piece.place),
                            .grad = bucket.slice(0, own(a)).slice(0, piece.place),
                            .decay = Training::decays(piece.tensor)});
      }
      exchanges.push_back(std::make_unique<ReduceScatterExchange>(groups_));
      exchanges.back()->start(bucket);
    }
    for (const auto& exchange : exchanges) exchange->finish();
  }

  void update(int step, const train::StepRule& rule) {
    std::size_t elements = 0;
    for (const optim::TensorUpdate& update : updates_) elements += update.value.numel();
    const std::size_t moments = 2 * elements * size_of(training_.dtype);
    const std::size_t in_use = device_.memory().current().total();
    device_.reset_memory_peaks();
    const bool gathers = keeps_ == Keeps::kEverything;
    step_own_shard(updates_, gathers ? weights_ : std::vector<Tensor>(), rule, adamw_,
                   groups_.shards);
    const MemoryTracker memory = device_.memory();
    EXPECT_EQ(memory.current()[MemoryCategory::kOptimizer], moments)
        << "bytes of the optimizer\nHint: two moments for each element of `own`, for no others.";
    EXPECT_EQ(memory.peak_total().bytes - in_use, step == 0 ? moments : 0)
        << "bytes that the step took\nHint: the weights are gathered in place.";
  }

  [[nodiscard]] Range own(std::size_t array) const {
    return shard_range(layouts_[array], groups_.shards.rank());
  }
  [[nodiscard]] Tensor shard(std::size_t array) const {
    return keeps_ == Keeps::kEverything ? weights_[array].slice(0, own(array)) : weights_[array];
  }

  void expect_sent(const CommStats& before) const {
    const CommStats now = groups_.dp.stats();
    const auto sent = [&](OpKind kind) { return now[kind].sent_bytes - before[kind].sent_bytes; };
    std::size_t once = 0;
    for (const FlatLayout& layout : layouts_) {
      once += (layout.padded - layout.shard) * size_of(training_.dtype);
    }
    const std::size_t gathered = keeps_ == Keeps::kEverything ? once : 0;
    EXPECT_EQ(sent(OpKind::kReduceScatter), once) << "bytes sent to reduce: (S-1)/S of the arrays";
    EXPECT_EQ(sent(OpKind::kAllGather), gathered)
        << "bytes sent to gather: (S-1)/S of `whole`, nothing when it is empty";
    const std::size_t between = groups_.replicas ? sent(OpKind::kAllReduce) : 0;
    EXPECT_EQ(now.sent_bytes() - before.sent_bytes() - between, once + gathered)
        << "bytes sent in all\nHint: an all-reduce is a reduce-scatter and an "
           "all-gather: the step stands between the two, and sends nothing itself.";
  }

  void expect_weights(std::size_t array, int step, const Expected& expected) const {
    Values after = expected.after[array];
    after.resize(layouts_[array].padded, 0.0);
    const Values found = weights_[array].to_vector();
    const Range place =
        keeps_ == Keeps::kEverything ? Range{0, layouts_[array].padded} : own(array);
    after = {after.begin() + static_cast<std::ptrdiff_t>(place.begin),
             after.begin() + static_cast<std::ptrdiff_t>(place.end)};
    const auto same = groups_.replicas ? ultra::test::all_near(weights_[array], after, 1e-10)
                                       : all_equal(weights_[array], after);
    EXPECT_TRUE(same) << "array " << array << " on rank " << groups_.dp.rank() << " after step "
                      << step << "\n"
                      << (same ? "" : hint(array, step, expected, place, found));
  }

  /// @param place  of the weights `found` in the array.
  [[nodiscard]] std::string hint(std::size_t array, int step, const Expected& expected, Range place,
                                 const Values& found) const {
    const auto equal = [&](const Values& whole, bool in_own_shard) {
      for (std::size_t i = place.begin; i < std::min(place.end, whole.size()); ++i) {
        const bool is_own = i >= own(array).begin && i < own(array).end;
        const double distance = std::abs(found[i - place.begin] - whole[i]);
        if (is_own == in_own_shard && distance > 1e-9 * std::abs(whole[i])) return false;
      }
      return true;
    };
    const auto stepped_by = [&](double norm) {
      test::OneRank one(training_);
      one.add_up(step);
      one.update(optim::clip_coefficient(norm, training_.clip_norm));
      return one.weights(array, layouts_[array].padded);
    };
    if (equal(expected.after[array], true)) {
      return equal(expected.before[array], false)
                 ? "Hint: the other ranks' weights are those before this step: each rank makes its "
                   "step first, then the weights are gathered, and waited for."
                 : "Hint: every rank's shard is gathered to where it stands in the array.";
    }
    if (step == 0 && equal(stepped_by(0.0), true)) {
      return "Hint: the gradients are not clipped: give the optimizer clip_coefficient(norm, "
             "clip_norm).";
    }
    double squares = 0;
    for (const optim::TensorUpdate& update : updates_) {
      const double norm = optim::global_norm(std::vector<Tensor>{update.grad});
      squares += norm * norm;
    }
    if (step == 0 && equal(stepped_by(std::sqrt(squares)), true)) {
      return "Hint: all ranks clip by the norm of the whole gradient, not by that of their own "
             "shard.";
    }
    return "Hint: AdamW's step of `own`, with the learning rate and the clip coefficient of the "
           "rule.";
  }

  Training training_;
  ShardGroups groups_;
  Keeps keeps_;
  Device device_ = Device::cpu();
  std::vector<FlatLayout> layouts_;
  std::vector<Tensor> weights_;
  std::vector<optim::TensorUpdate> updates_;
  optim::AdamW adamw_{test::kAdamW};
};

class ZeroTraining : public ultra::test::RandomTest {
 protected:
  Training draw(int ranks, DType dtype) {
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

  static void expect_training(const Training& training, Keeps keeps, int node_size) {
    const std::vector<Expected> expected = test::train_on_one_rank(training);
    const auto rank = [&](Communicator& dp) {
      Sharded sharded(training, make_shard_groups(dp, as_size(node_size)), keeps);
      for (int step = 0; step < Training::kSteps; ++step) {
        sharded.step(step, expected[as_size(step)]);
      }
    };
    ultra::test::on_ranks(training.ranks, training.str(), rank,
                          ultra::test::on_call(ultra::test::in_rank_order()));
  }
};

TEST_F(ZeroTraining, WeightsAreThoseOfOneRankBitForBit) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    for (const DType dtype : ultra::test::kFloatDTypes) {
      if (!HasFailure()) expect_training(draw(ranks, dtype), Keeps::kEverything, ranks);
    }
  }
}

TEST_F(ZeroTraining, WithoutWholeWeightsNothingIsGathered) {
  for (int ranks = 1; ranks <= 4 && !HasFailure(); ++ranks) {
    expect_training(draw(ranks, DType::kF32), Keeps::kItsShard, ranks);
  }
}

TEST_F(ZeroTraining, CopiesStayAlike) {
  for (const Keeps keeps : {Keeps::kEverything, Keeps::kItsShard}) {
    if (!HasFailure()) expect_training(draw(4, DType::kF64), keeps, 2);
  }
}

}  // namespace
}  // namespace ultra::zero

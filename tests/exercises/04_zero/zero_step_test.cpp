// Contract of exercise 04.2: training against one rank that has everything. Gradients are whole
// 64ths: their sums are exact, in whatever order copies of a shard add them up.
#include "chapters/04_zero/zero_step.hpp"

#include "chapters/04_zero/flat_layout.hpp"
#include "common/comm/collectives/schedule.hpp"
#include "common/optim/adamw.hpp"
#include "common/optim/clip.hpp"
#include "tests/support/ranks/on_ranks.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using Values = std::vector<double>;

constexpr double kLearningRate = 0.05;
constexpr int kSteps = 3;
// Large enough that an update depends on the size of the gradient, not on its direction alone.
constexpr optim::AdamWConfig kAdamW{.epsilon = 0.1};

std::size_t as_size(int number) { return static_cast<std::size_t>(number); }

Values divided(Values values, double by) {
  for (double& value : values) value /= by;
  return values;
}

/// Flat arrays of weights, gradients of some steps, and the ranks that share a copy of the states.
struct Training {
  std::vector<std::vector<std::size_t>> counts;  ///< by array: elements of its tensors
  int ranks = 1;
  int node_size = 1;
  DType dtype = DType::kF32;
  double clip_norm = 0;
  std::uint64_t seed = 0;

  [[nodiscard]] int nodes() const { return ranks / node_size; }
  [[nodiscard]] std::string str() const {
    return fmt::format("{} nodes of {} ranks, {}, clip norm {}, arrays of {}", nodes(), node_size,
                       to_string(dtype), clip_norm, ::testing::PrintToString(counts));
  }
  [[nodiscard]] FlatLayout layout(std::size_t array, int shards) const {
    return flat_layout(counts[array], shards);
  }
  [[nodiscard]] Tensor weights(const Device& device, std::size_t array, std::size_t padded) const {
    const Tensor all = Tensor::zeros(device, {padded}, dtype, MemoryCategory::kParameters);
    ultra::test::Random random(seed + array);
    random.fill(all.slice(0, {0, layout(array, 1).count}), 1.0);
    return all;
  }
  /// Elements of an array's gradient, summed over ranks [begin, end); zeros behind it. Each is a multiple
  /// of the number of ranks: what is divided by it is exact, too.
  [[nodiscard]] Values sum(std::size_t array, int step, int begin, int end, Range elements) const {
    Values sums(elements.size(), 0.0);
    const std::size_t count = layout(array, 1).count;
    for (std::size_t i = elements.begin; i < std::min(elements.end, count); ++i) {
      for (int rank = begin; rank < end; ++rank) {
        sums[i - elements.begin] +=
            ranks * ultra::test::whole_number(seed + as_size(step), rank, array, i) / 64;
      }
    }
    return sums;
  }
  [[nodiscard]] Tensor bucket(const Device& device, std::size_t array, int step, int rank) const {
    const Values own = sum(array, step, rank, rank + 1, {0, layout(array, node_size).padded});
    const Tensor bucket = Tensor::empty(device, {own.size()}, dtype, MemoryCategory::kGradients);
    bucket.copy_from(Tensor::from<double>(device, {own.size()}, own).to(dtype));
    return bucket;
  }
};

/// What one rank that has everything has in each step.
struct OneRank {
  explicit OneRank(const Training& of) : training(of) {
    for (std::size_t a = 0; a < training.counts.size(); ++a) {
      weights.push_back(training.weights(device, a, training.layout(a, 1).count));
    }
  }
  /// The gradients' sums, in the order of the arrays.
  [[nodiscard]] std::vector<Tensor> gradients(int step) const {
    std::vector<Tensor> sums;
    for (std::size_t a = 0; a < weights.size(); ++a) {
      const Values sum = training.sum(a, step, 0, training.ranks, {0, weights[a].numel()});
      sums.push_back(Tensor::from<double>(device, {sum.size()}, sum).to(training.dtype));
    }
    return sums;
  }
  [[nodiscard]] double norm(int step) const { return optim::global_norm(gradients(step)); }
  void update(int step, double norm) {
    const std::vector<Tensor> sums = gradients(step);
    std::vector<optim::TensorUpdate> updates;
    for (std::size_t a = 0; a < weights.size(); ++a) {
      const std::vector<Range> places = training.layout(a, 1).places;
      for (std::size_t tensor = 0; tensor < places.size(); ++tensor) {
        updates.push_back({.value = weights[a].slice(0, places[tensor]),
                           .grad = sums[a].slice(0, places[tensor]),
                           .decay = tensor % 2 == 0});
      }
    }
    optimizer.step(updates, kLearningRate, optim::clip_coefficient(norm, training.clip_norm));
  }

  Training training;
  Device device = Device::cpu();
  std::vector<Tensor> weights;
  optim::Optimizer optimizer{optim::adamw(kAdamW)};
};

// The exchange ------------------------------------------------------------------------------------

std::string hint_for_sum(const Training& t, int rank, std::size_t array, int step, Range own,
                         const Values& found) {
  struct Mistake {
    int copies;  ///< that it takes to tell
    Values gives;
    const char* hint;
  };
  constexpr const char* kBothAddUp =
      "both operations add up: over the shards' ranks, and between the copies.";
  const auto sum = [&](int begin, int end) { return t.sum(array, step, begin, end, own); };
  const Values all = sum(0, t.ranks);
  const int node = rank / t.node_size * t.node_size;
  for (const auto& [copies, gives, hint] :
       {Mistake{2, sum(node, node + t.node_size),
                "the sum over one copy only: the ranks of `replicas` hold the same shard, and add "
                "it up, too."},
        Mistake{1, sum(rank, rank + 1),
                "these are this rank's own gradients: nothing was reduced into the slice of the "
                "bucket that is its shard."},
        Mistake{2, divided(all, t.node_size), kBothAddUp},
        Mistake{2, divided(all, t.nodes()), kBothAddUp},
        Mistake{1, divided(all, t.ranks),
                "this is the average, N times too small: each rank's gradients are a share of the "
                "whole batch's, and shares are added up."}}) {
    if (t.nodes() >= copies && found == gives) return hint;
  }
  return "shard r of n elements on S ranks is the slice [r n/S, (r+1) n/S) of the bucket.";
}

void expect_sum(const Training& t, const ShardGroups& groups, std::size_t array, int step,
                const Tensor& bucket, const std::string& hint = "") {
  const Range own = shard_range(t.layout(array, t.node_size), groups.shards.rank());
  const Tensor shard = bucket.slice(0, own);
  EXPECT_TRUE(ultra::test::all_equal(shard, t.sum(array, step, 0, t.ranks, own)))
      << "array " << array << ", shard of rank " << groups.dp.rank() << "\nHint: "
      << (hint.empty() ? hint_for_sum(t, groups.dp.rank(), array, step, own, shard.to_vector())
                       : hint);
}

// A rank ------------------------------------------------------------------------------------------

/// Which weights a rank keeps.
enum class Keeps { kEverything, kItsShard };

/// Makes steps on its shard of each array.
class ShardedRank {
 public:
  ShardedRank(const Training& training, const ShardGroups& groups, Keeps keeps)
      : training_(training), groups_(groups), keeps_(keeps) {
    for (std::size_t a = 0; a < training.counts.size(); ++a) {
      layouts_.push_back(training.layout(a, groups.shards.size()));
      const Tensor whole = training.weights(device_, a, layouts_[a].padded);
      const Tensor shard = whole.slice(0, own(a));
      weights_.push_back(keeps == Keeps::kEverything ? whole
                                                     : shard.clone(MemoryCategory::kParameters));
    }
  }

  /// Makes a step and holds it against that of one rank.
  void step(int step, double norm, const std::vector<Values>& before,
            const std::vector<Values>& after) {
    add_up(step);
    if (step + 1 == kSteps) ultra::test::come_late(groups_.dp);
    update(step, {kLearningRate, norm, training_.clip_norm});
    for (std::size_t a = 0; a < weights_.size(); ++a) {
      Values expected = after[a];
      expected.resize(layouts_[a].padded, 0.0);
      const Range place = keeps_ == Keeps::kEverything ? Range{0, expected.size()} : Range(own(a));
      expected = {expected.begin() + static_cast<std::ptrdiff_t>(place.begin),
                  expected.begin() + static_cast<std::ptrdiff_t>(place.end)};
      const auto same = ultra::test::all_equal(weights_[a], expected);
      EXPECT_TRUE(same) << "array " << a << " on rank " << groups_.dp.rank() << " after step "
                        << step << "\nHint: " << (same ? "" : hint(a, step, before[a], after[a]));
    }
    updates_.clear();
  }

 private:
  [[nodiscard]] Range own(std::size_t array) const {
    return shard_range(layouts_[array], groups_.shards.rank());
  }

  /// updates_ has this rank's shard of the sum.
  void add_up(int step) {
    const CommStats before = groups_.dp.stats();
    std::vector<Tensor> buckets;
    std::vector<std::unique_ptr<ReduceScatterExchange>> exchanges;
    std::size_t sent = 0;
    for (std::size_t a = 0; a < weights_.size(); ++a) {
      buckets.push_back(training_.bucket(device_, a, step, groups_.dp.rank()));
      const Tensor shard =
          keeps_ == Keeps::kEverything ? weights_[a].slice(0, own(a)) : weights_[a];
      for (const Piece& piece : pieces_of(layouts_[a], groups_.shards.rank())) {
        updates_.push_back({.value = shard.slice(0, piece.place),
                            .grad = buckets[a].slice(0, own(a)).slice(0, piece.place),
                            .decay = piece.tensor % 2 == 0});
      }
      exchanges.push_back(std::make_unique<ReduceScatterExchange>(groups_));
      exchanges.back()->start(buckets[a]);
      sent += layouts_[a].padded - layouts_[a].shard;
      if (!groups_.replicas) continue;
      const auto chunks = comm::Chunks::even({0, layouts_[a].shard}, groups_.replicas->size());
      const std::size_t chunk = chunks[groups_.replicas->rank()].size();
      sent += layouts_[a].shard - chunk + as_size(groups_.replicas->size() - 1) * chunk;
    }
    for (const auto& exchange : exchanges) exchange->finish();
    for (std::size_t a = 0; a < buckets.size(); ++a) {
      expect_sum(training_, groups_, a, step, buckets[a]);
    }
    EXPECT_EQ(groups_.dp.stats().sent_bytes() - before.sent_bytes(),
              sent * size_of(training_.dtype))
        << "bytes sent by the exchange\nHint: a reduce-scatter sends half of what an all-reduce "
           "does, (S-1)/S of the buckets: each rank gets its own shard of the sum, and nothing "
           "else. Between copies only the shard is sent.";
  }

  void update(int step, const train::StepRule& rule) {
    const CommStats before = groups_.dp.stats();
    std::size_t elements = 0;
    std::size_t gathered = 0;
    for (const optim::TensorUpdate& update : updates_) elements += update.value.numel();
    const bool gathers = keeps_ == Keeps::kEverything;
    for (const FlatLayout& layout : layouts_) {
      gathered += gathers ? (layout.padded - layout.shard) * size_of(training_.dtype) : 0;
    }
    const std::size_t moments = 2 * elements * size_of(training_.dtype);
    const std::size_t in_use = device_.memory().current().total();
    device_.reset_memory_peaks();
    step_own_shard(updates_, gathers ? weights_ : std::vector<Tensor>(), rule, optimizer_,
                   groups_.shards);
    const MemoryTracker memory = device_.memory();
    EXPECT_EQ(memory.current()[MemoryCategory::kOptimizer], moments)
        << "bytes of the optimizer\nHint: two moments for each element of `own`, for no others.";
    EXPECT_EQ(memory.peak_total().bytes - in_use, step == 0 ? moments : 0)
        << "bytes that the step took\nHint: the weights are gathered in place.";
    EXPECT_EQ(groups_.dp.stats().sent_bytes() - before.sent_bytes(), gathered)
        << "bytes that the step sent\nHint: (S-1)/S of `whole`, nothing when it is empty. An "
           "all-reduce is a reduce-scatter and an all-gather: the step stands between the two, and "
           "sends nothing itself.";
  }

  [[nodiscard]] const char* hint(std::size_t array, int step, const Values& before,
                                 const Values& after) const {
    const Values found = weights_[array].to_vector();
    const std::size_t begin = keeps_ == Keeps::kEverything ? 0 : own(array).begin;
    const auto equal = [&](const Values& whole, bool in_own_shard) {
      for (std::size_t i = begin; i < std::min(begin + found.size(), whole.size()); ++i) {
        const bool is_own = i >= own(array).begin && i < own(array).end;
        if (is_own == in_own_shard && found[i - begin] != whole[i]) return false;
      }
      return true;
    };
    const auto stepped_by = [&](double norm) {
      OneRank one(training_);
      one.update(step, norm);
      return one.weights[array].to_vector();
    };
    if (equal(after, true)) {
      return equal(before, false)
                 ? "the other ranks' weights are those before this step: each rank makes its step "
                   "first, then the weights are gathered, and waited for."
                 : "every rank's shard is gathered to where it stands in the array.";
    }
    if (step == 0 && equal(stepped_by(0.0), true)) {
      return "the gradients are not clipped: give the optimizer clip_coefficient(norm, clip_norm).";
    }
    std::vector<Tensor> own_gradients;
    for (const optim::TensorUpdate& update : updates_) own_gradients.push_back(update.grad);
    if (step == 0 && equal(stepped_by(optim::global_norm(own_gradients)), true)) {
      return "all ranks clip by the norm of the whole gradient, not by that of their own shard.";
    }
    return "AdamW's step of `own`, with the learning rate and the clip coefficient of the rule.";
  }

  Training training_;
  ShardGroups groups_;
  Keeps keeps_;
  Device device_ = Device::cpu();
  std::vector<FlatLayout> layouts_;
  std::vector<Tensor> weights_;
  std::vector<optim::TensorUpdate> updates_;
  optim::Optimizer optimizer_{optim::adamw(kAdamW)};
};

class ZeroStep : public ultra::test::RandomTest {
 protected:
  Training draw(int nodes, int node_size, DType dtype) {
    Training training{.counts = {},
                      .ranks = nodes * node_size,
                      .node_size = node_size,
                      .dtype = dtype,
                      .clip_norm = random.pick({0.0, 0.1, 0.1}),
                      .seed = seed};
    training.counts.resize(random.between(1, 3));
    for (auto& array : training.counts) {
      array.resize(random.between(1, 4));
      for (std::size_t& count : array) count = random.between(0, 15);
    }
    training.counts[0][0] = random.between(10, 30);
    return training;
  }

  void expect_training(const Training& training, Keeps keeps) {
    OneRank one(training);
    std::vector<double> norms;
    std::vector<std::vector<Values>> weights(kSteps + 1);
    for (int step = 0; step <= kSteps; ++step) {
      for (const Tensor& array : one.weights) weights[as_size(step)].push_back(array.to_vector());
      norms.push_back(one.norm(step));
      one.update(step, norms.back());
    }
    const auto rank = [&](Communicator& dp) {
      ShardedRank sharded(training, make_shard_groups(dp, as_size(training.node_size)), keeps);
      for (int step = 0; step < kSteps; ++step) {
        sharded.step(step, norms[as_size(step)], weights[as_size(step)],
                     weights[as_size(step + 1)]);
      }
    };
    ultra::test::on_ranks(training.ranks, training.str(), rank, ultra::test::on_call());
  }
};

TEST_F(ZeroStep, TrainsLikeOneRank) {
  for (const Keeps keeps : {Keeps::kEverything, Keeps::kItsShard}) {
    for (const DType dtype : ultra::test::kFloatDTypes) {
      for (const int node_size : {2, 3, 1, 4, 5}) {
        for (int nodes = 1; nodes * node_size <= 6 && nodes <= 3; ++nodes) {
          if (!HasFailure()) expect_training(draw(nodes, node_size, dtype), keeps);
        }
      }
    }
  }
}

TEST_F(ZeroStep, TheExchangeEndsWhenTheLastRankHasJoined) {
  const Training t = draw(1, 3, DType::kF64);
  ultra::test::on_ranks(3, t.str(), [&](Communicator& dp) {
    const ShardGroups groups = make_shard_groups(dp, std::nullopt);
    const Tensor bucket = t.bucket(Device::cpu(), 0, 0, dp.rank());
    ReduceScatterExchange exchange(groups);
    ultra::test::come_late(dp);
    exchange.start(bucket);
    exchange.finish();
    expect_sum(t, groups, 0, 0, bucket,
               "finish() waits for the reduce-scatter: without it the optimizer reads sums that "
               "are not complete.");
  });
}

TEST_F(ZeroStep, TheExchangeWorksInPlaceAndLetsGoOfTheBucket) {
  const auto rank = [&](Communicator& dp) {
    const Device own = Device::cpu();
    ReduceScatterExchange exchange(make_shard_groups(dp, std::nullopt));
    Tensor bucket = Tensor::zeros(own, {300}, DType::kF32, MemoryCategory::kGradients);
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
  ultra::test::on_ranks(3, "a bucket of 300", rank, ultra::test::on_call());
}

}  // namespace
}  // namespace ultra::zero

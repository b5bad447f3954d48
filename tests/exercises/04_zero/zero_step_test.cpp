// Contract of exercise 04.2: training against one rank that has everything. Gradients are whole
// 64ths: their sums are exact, in whatever order copies of a shard add them up.
#include "chapters/04_zero/zero_step.hpp"

#include <deque>

#include "common/comm/collectives/schedule.hpp"
#include "common/optim/adamw.hpp"
#include "common/optim/clip.hpp"
#include "tests/support/ranks/on_ranks.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using Tensors = std::vector<Tensor>;

constexpr double kLearningRate = 0.05;
constexpr int kSteps = 3;
// Large enough that an update depends on the size of the gradient, not on its direction alone.
constexpr optim::AdamWConfig kAdamW{.epsilon = 0.1};

std::size_t as_size(int number) { return static_cast<std::size_t>(number); }

std::vector<optim::TensorUpdate> updates_of(const Tensors& weights, const Tensors& gradients) {
  std::vector<optim::TensorUpdate> updates;
  for (std::size_t a = 0; a < weights.size(); ++a) {
    updates.push_back({.value = weights[a], .grad = gradients[a], .decay = a % 2 == 0});
  }
  return updates;
}

/// Flat arrays of weights, gradients of some steps, and the ranks that share a copy of the states.
struct Training {
  int nodes = 1;
  int node_size = 1;
  DType dtype = DType::kF32;
  double clip_norm = 0;
  bool gathers = true;  ///< every rank keeps all weights; else it keeps those of its shard
  std::vector<std::size_t> shards = {};  ///< by array: elements of each rank's shard
  std::uint64_t seed = 0;

  [[nodiscard]] int ranks() const { return nodes * node_size; }
  [[nodiscard]] std::string str() const {
    return fmt::format("{} nodes of {} ranks, {}, clip norm {}, {}, shards of {}", nodes, node_size,
                       to_string(dtype), clip_norm, gathers ? "gathered" : "never gathered",
                       ::testing::PrintToString(shards));
  }
  /// The gradients' sums over ranks [begin, end), divided. All are multiples of the number of ranks:
  /// what is divided by it is exact, too.
  [[nodiscard]] Tensors sums(int step, int begin, int end, int divisor = 1,
                             const Device& device = Device::cpu()) const {
    Tensors arrays;
    for (std::size_t a = 0; a < shards.size(); ++a) {
      std::vector<double> sum(shards[a] * as_size(node_size), 0.0);
      for (std::size_t i = 0; i < sum.size(); ++i) {
        for (int rank = begin; rank < end; ++rank) {
          sum[i] += ranks() * ultra::test::whole_number(seed + as_size(step), rank, a, i) / 64;
        }
        sum[i] /= divisor;
      }
      arrays.push_back(Tensor::from<double>(device, {sum.size()}, sum).to(dtype));
    }
    return arrays;
  }
  /// Weights to begin with: any numbers do, such as gradients of a step that is not made.
  [[nodiscard]] Tensors weights(const Device& device) const {
    return sums(kSteps, 0, 1, 1, device);
  }
  [[nodiscard]] double norm(int step) const { return optim::global_norm(sums(step, 0, ranks())); }
  /// Weights of one rank that has everything after some steps, the last of which clips by that norm.
  [[nodiscard]] Tensors one_rank(int steps, std::optional<double> last_norm = {}) const {
    const Tensors arrays = weights(Device::cpu());
    optim::Optimizer optimizer{optim::adamw(kAdamW)};
    for (int step = 0; step < steps; ++step) {
      const double by = step + 1 == steps ? last_norm.value_or(norm(step)) : norm(step);
      optimizer.step(updates_of(arrays, sums(step, 0, ranks())), kLearningRate,
                     optim::clip_coefficient(by, clip_norm));
    }
    return arrays;
  }
};

/// Makes steps on its shard of each array, and holds them against those of one rank.
class ShardedRank {
 public:
  ShardedRank(const Training& training, const Communicator& dp)
      : t_(training), groups_(make_shard_groups(dp, as_size(t_.node_size))) {}

  void step(int step) {
    std::deque<ReduceScatterExchange> exchanges;
    Tensors buckets;
    for (const Tensor& mine : t_.sums(step, rank_, rank_ + 1, 1, device_)) {
      buckets.push_back(mine.clone(MemoryCategory::kGradients));
    }
    const auto [sent, memory] = cost_of([&] {
      if (step == 0) ultra::test::come_late(groups_.dp);
      for (const Tensor& bucket : buckets) exchanges.emplace_back(groups_).start(bucket);
      for (ReduceScatterExchange& exchange : exchanges) exchange.finish();
    });
    std::size_t elements = 0;
    for (const std::size_t shard : t_.shards) {
      const auto chunk = comm::Chunks::even({0, shard}, t_.nodes)[rank_ / t_.node_size].size();
      elements += as_size(t_.node_size) * shard - chunk + as_size(t_.nodes - 1) * chunk;
    }
    EXPECT_EQ(sent, elements * size_of(t_.dtype))
        << "bytes sent by the exchange\nHint: a reduce-scatter sends half of what an all-reduce "
           "does, (S-1)/S of the buckets: each rank gets its own shard of the sum, and nothing "
           "else. Between copies only the shard is sent.";
    EXPECT_EQ(memory, 0U) << "bytes that the exchange took\nHint: the shard is a slice of the "
                             "bucket, so that the reduce-scatter works in place.";
    expect_sum(step, own(buckets));
    update(step, own(buckets));
    buckets.clear();
    EXPECT_EQ(device_.memory().current()[MemoryCategory::kGradients], 0U)
        << "bytes of the buckets\nHint: finish() lets go of the bucket's memory: a slice of it "
           "keeps all of it alive.";
  }

 private:
  [[nodiscard]] Tensors own(Tensors arrays) const {
    for (Tensor& array : arrays) array = own_shard(array, groups_.shards);
    return arrays;
  }

  /// Bytes sent, and bytes of memory at the peak beyond those in use before.
  std::pair<std::size_t, std::size_t> cost_of(const std::function<void()>& fn) {
    const std::size_t sent = groups_.dp.stats().sent_bytes();
    const std::size_t in_use = device_.memory().current().total();
    device_.reset_memory_peaks();
    fn();
    return {groups_.dp.stats().sent_bytes() - sent, device_.memory().peak_total().bytes - in_use};
  }

  /// Says what is known of the mistake that gives these values.
  void expect_equal(int step, const Tensors& found, const Tensors& expected,
                    const std::vector<std::pair<Tensors, const char*>>& mistakes,
                    const char* otherwise) const {
    for (std::size_t a = 0; a < found.size(); ++a) {
      const auto gives_it = [&](const auto& m) -> bool {
        return ultra::test::all_equal(found[a], m.first[a]);
      };
      const auto mistake = std::ranges::find_if(mistakes, gives_it);
      EXPECT_TRUE(ultra::test::all_equal(found[a], expected[a]))
          << "array " << a << " on rank " << rank_ << " in step " << step
          << "\nHint: " << (mistake == mistakes.end() ? otherwise : mistake->second);
    }
  }

  void expect_sum(int step, const Tensors& shards) const {
    constexpr const char* kBothAddUp =
        "both operations add up: over the shards' ranks, and between the copies.";
    const auto sum = [&](int begin, int end, int by) { return own(t_.sums(step, begin, end, by)); };
    const int all = t_.ranks();
    const int node = rank_ / t_.node_size * t_.node_size;
    expect_equal(
        step, shards, sum(0, all, 1),
        {{sum(node, node + t_.node_size, 1),
          "the sum over one copy only: the ranks of `replicas` hold the same shard, and add it up, "
          "too."},
         {sum(rank_, rank_ + 1, 1),
          "these are this rank's own gradients: finish() waits for the reduce-scatter, which "
          "reduces into the slice of the bucket that is this rank's shard."},
         {sum(0, all, all),
          "this is the average, N times too small: each rank's gradients are a share of the whole "
          "batch's, and shares are added up."},
         {sum(0, all, t_.node_size), kBothAddUp},
         {sum(0, all, t_.nodes), kBothAddUp}},
        "shard r of n elements on S ranks is the slice [r n/S, (r+1) n/S) of the bucket.");
  }

  void update(int step, const Tensors& gradients) {
    const double norm = t_.norm(step);
    const auto [sent, memory] = cost_of([&] {
      if (step + 1 == kSteps) ultra::test::come_late(groups_.dp);
      step_own_shard(updates_of(own(weights_), gradients), t_.gathers ? weights_ : Tensors(),
                     {kLearningRate, norm, t_.clip_norm}, optimizer_, groups_.shards);
    });
    const std::size_t bytes = std::reduce(t_.shards.begin(), t_.shards.end()) * size_of(t_.dtype);
    EXPECT_EQ(device_.memory().current()[MemoryCategory::kOptimizer], 2 * bytes)
        << "bytes of the optimizer\nHint: two moments for each element of `own`, for no others.";
    EXPECT_EQ(memory, step == 0 ? 2 * bytes : 0)
        << "bytes that the step took\nHint: the weights are gathered in place.";
    EXPECT_EQ(sent, t_.gathers ? as_size(t_.node_size - 1) * bytes : 0)
        << "bytes that the step sent\nHint: (S-1)/S of `whole`, nothing when it is empty. An "
           "all-reduce is a reduce-scatter and an all-gather: the step stands between the two, and "
           "sends nothing itself.";
    const Tensors after = t_.one_rank(step + 1);
    if (t_.gathers) {
      const Tensors ungathered = t_.one_rank(step);
      for (std::size_t a = 0; a < after.size(); ++a) own(ungathered)[a].copy_from(own(after)[a]);
      expect_equal(step, weights_, after,
                   {{ungathered,
                     "the other ranks' weights are those before this step: each rank makes its "
                     "step first, then the weights are gathered, and waited for."}},
                   "every rank's shard is gathered to where it stands in the array.");
      return;
    }
    expect_equal(
        step, own(weights_), own(after),
        {{own(t_.one_rank(step + 1, 0.0)),
          "the gradients are not clipped: give the optimizer clip_coefficient(norm, clip_norm)."},
         {own(t_.one_rank(step + 1, optim::global_norm(gradients))),
          "all ranks clip by the norm of the whole gradient, not by that of their own shard."}},
        "AdamW's step of `own`, with the learning rate and the clip coefficient of the rule.");
  }

  Training t_;
  ShardGroups groups_;
  int rank_ = groups_.dp.rank();
  Device device_ = Device::cpu();
  Tensors weights_ = t_.weights(device_);
  optim::Optimizer optimizer_{optim::adamw(kAdamW)};
};

class ZeroStep : public ultra::test::RandomTest {};

TEST_F(ZeroStep, TrainsLikeOneRank) {
  for (const bool gathers : {false, true}) {  // first the step alone
    for (const int node_size : {2, 3, 1, 4, 5}) {
      for (int nodes = 1; nodes * node_size <= 6 && nodes <= 3 && !HasFailure(); ++nodes) {
        Training training{.nodes = nodes,
                          .node_size = node_size,
                          .dtype = random.pick({DType::kF32, DType::kF64}),
                          .clip_norm = random.pick({0.0, 0.1, 0.1}),
                          .gathers = gathers,
                          .shards = std::vector<std::size_t>(random.between(1, 3)),
                          .seed = seed};
        for (std::size_t& shard : training.shards) shard = random.between(1, 15);
        const auto rank = [&](const Communicator& dp) {
          ShardedRank sharded(training, dp);
          for (int step = 0; step < kSteps; ++step) sharded.step(step);
        };
        ultra::test::on_ranks(training.ranks(), training.str(), rank, ultra::test::on_call());
      }
    }
  }
}

}  // namespace
}  // namespace ultra::zero

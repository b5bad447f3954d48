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
constexpr std::size_t kSteps = 3;
// Large enough that an update depends on the size of the gradient, not on its direction alone.
constexpr optim::AdamWConfig kAdamW{.epsilon = 0.1};

std::vector<optim::TensorUpdate> updates_of(const Tensors& weights, const Tensors& gradients) {
  std::vector<optim::TensorUpdate> updates;
  for (std::size_t a = 0; a < weights.size(); ++a) {
    updates.push_back({.value = weights[a], .grad = gradients[a], .decay = a % 2 == 0});
  }
  return updates;
}

/// Flat arrays of weights, gradients of some steps, and the ranks that share a copy of the states.
struct Training {
  std::size_t nodes = 1;
  std::size_t node_size = 1;
  DType dtype = DType::kF32;
  double clip_norm = 0;
  bool gathers = true;  ///< every rank keeps all weights; else it keeps those of its shard
  std::vector<std::size_t> shards = {};  ///< by array: elements of each rank's shard
  std::uint64_t seed = 0;

  [[nodiscard]] Range all() const { return {0, nodes * node_size}; }
  /// The gradients of some ranks, added up; or N times smaller.
  [[nodiscard]] Tensors sums(std::size_t step, Range ranks, bool average = false,
                             const Device& device = Device::cpu()) const {
    Tensors arrays;
    for (std::size_t a = 0; a < shards.size(); ++a) {
      std::vector<double> sum(shards[a] * node_size, 0.0);
      for (std::size_t i = 0; i < sum.size(); ++i) {
        for (std::size_t rank = ranks.begin; rank < ranks.end; ++rank) {
          sum[i] += ultra::test::whole_number(seed + step, static_cast<int>(rank), a, i) / 64;
        }
        sum[i] *= average ? 1.0 : count_of(all().size());
      }
      arrays.push_back(Tensor::from<double>(device, {sum.size()}, sum).to(dtype));
    }
    return arrays;
  }
  /// To begin with, any numbers do: gradients of a step that is not made.
  [[nodiscard]] Tensors weights(const Device& on) const { return sums(kSteps, {0, 1}, false, on); }
  [[nodiscard]] double norm(std::size_t s) const { return optim::global_norm(sums(s, all())); }
  /// Weights of one rank that has everything after a step, which clips by that norm.
  [[nodiscard]] Tensors after(std::size_t step, double last_norm) const {
    const Tensors arrays = weights(Device::cpu());
    optim::Optimizer optimizer{optim::adamw(kAdamW)};
    for (std::size_t s = 0; s <= step; ++s) {
      optimizer.step(updates_of(arrays, sums(s, all())), kLearningRate,
                     optim::clip_coefficient(s == step ? last_norm : norm(s), clip_norm));
    }
    return arrays;
  }
};

/// Makes steps on its shard of each array, and holds them against those of one rank.
class ShardedRank {
 public:
  ShardedRank(const Training& training, const Communicator& dp)
      : t_(training), groups_(make_shard_groups(dp, t_.node_size)) {}

  void step(std::size_t step) {
    std::deque<ReduceScatterExchange> exchanges;
    Tensors buckets;
    for (const Tensor& mine : t_.sums(step, {rank_, rank_ + 1}, false, device_)) {
      buckets.push_back(mine.clone(MemoryCategory::kGradients));
    }
    const auto [sent, memory] = ultra::test::cost_of(groups_.dp, device_, [&] {
      if (step == 0) ultra::test::come_late(groups_.dp);
      for (const Tensor& bucket : buckets) exchanges.emplace_back(groups_).start(bucket);
      for (ReduceScatterExchange& exchange : exchanges) exchange.finish();
    });
    std::size_t elements = 0;
    for (const std::size_t shard : t_.shards) {
      const comm::Chunks chunks = comm::Chunks::even({0, shard}, static_cast<int>(t_.nodes));
      const std::size_t chunk = chunks[static_cast<int>(rank_ / t_.node_size)].size();
      elements += t_.node_size * shard - chunk + (t_.nodes - 1) * chunk;
    }
    EXPECT_EQ(sent, elements * size_of(t_.dtype))
        << "bytes sent by the exchange\nHint: (S-1)/S of the buckets, half of what an all-reduce "
           "sends: each rank gets its own shard of the sum. Between copies only shards are sent.";
    EXPECT_EQ(memory, 0U)
        << "bytes that the exchange took\nHint: it works in place, into a slice of the bucket.";
    const std::size_t node = rank_ / t_.node_size * t_.node_size;
    expect_equal(
        own(buckets), own(t_.sums(step, t_.all())),
        {{own(t_.sums(step, {node, node + t_.node_size})),
          "the sum over one copy only: the ranks of `replicas` hold the same shard; add it up."},
         {own(t_.sums(step, {rank_, rank_ + 1})),
          "these are this rank's own: finish() waits for the reduce-scatter, into its slice."},
         {own(t_.sums(step, t_.all(), true)),
          "this is the average, N times too small: ranks have shares of the batch's gradients."}},
        "both operations add up, over shards and copies. Shard r is the slice [r n/S, (r+1) n/S).");
    update(step, own(buckets));
    buckets.clear();
    EXPECT_EQ(device_.memory().current()[MemoryCategory::kGradients], 0U)
        << "bytes of the buckets\nHint: finish() lets go of the bucket, which a slice keeps alive.";
  }

 private:
  [[nodiscard]] Tensors own(Tensors arrays) const {
    for (Tensor& array : arrays) array = own_shard(array, groups_.shards);
    return arrays;
  }

  /// Says what is known of the mistake that gives these values.
  void expect_equal(const Tensors& found, const Tensors& expected,
                    const std::vector<std::pair<Tensors, const char*>>& mistakes,
                    const char* otherwise) const {
    for (std::size_t a = 0; a < found.size(); ++a) {
      const char* hint = otherwise;
      for (const auto& [values, of_mistake] : mistakes) {
        if (ultra::test::all_equal(found[a], values[a])) hint = of_mistake;
      }
      EXPECT_TRUE(ultra::test::all_equal(found[a], expected[a]))
          << "array " << a << " on rank " << rank_ << "\nHint: " << hint;
    }
  }

  void update(std::size_t step, const Tensors& gradients) {
    const double norm = t_.norm(step);
    const auto [sent, memory] = ultra::test::cost_of(groups_.dp, device_, [&] {
      if (step + 1 == kSteps) ultra::test::come_late(groups_.dp);
      step_own_shard(updates_of(own(weights_), gradients), t_.gathers ? weights_ : Tensors(),
                     {kLearningRate, norm, t_.clip_norm}, optimizer_, groups_.shards);
    });
    const std::size_t bytes = std::reduce(t_.shards.begin(), t_.shards.end()) * size_of(t_.dtype);
    EXPECT_EQ(device_.memory().current()[MemoryCategory::kOptimizer], 2 * bytes)
        << "bytes of the optimizer\nHint: two moments for each element of `own`, for no others.";
    EXPECT_EQ(memory, step == 0 ? 2 * bytes : 0)
        << "bytes that the step took\nHint: the weights are gathered in place.";
    EXPECT_EQ(sent, t_.gathers ? (t_.node_size - 1) * bytes : 0)
        << "bytes that the step sent\nHint: (S-1)/S of `whole`, nothing when it is empty.";
    const Tensors after = t_.after(step, norm);
    expect_equal(
        own(weights_), own(after),
        {{own(t_.after(step, 0.0)),
          "the gradients are not clipped: give the optimizer clip_coefficient(norm, clip_norm)."},
         {own(t_.after(step, optim::global_norm(gradients))),
          "all ranks clip by the norm of the whole gradient, not by that of their own shard."}},
        "AdamW's step of `own`, with the learning rate and the clip coefficient of the rule.");
    if (!t_.gathers) return;
    expect_equal(weights_, after, {},
                 "each rank makes its step first, then the weights are gathered, and waited for: "
                 "every rank's shard to where it stands in the array.");
  }

  Training t_;
  ShardGroups groups_;
  std::size_t rank_ = static_cast<std::size_t>(groups_.dp.rank());
  Device device_ = Device::cpu();
  Tensors weights_ = t_.weights(device_);
  optim::Optimizer optimizer_{optim::adamw(kAdamW)};
};

class ZeroStep : public ultra::test::RandomTest {};

TEST_F(ZeroStep, TrainsLikeOneRank) {
  for (const bool gathers : {false, true}) {  // first the step alone
    for (const std::size_t node_size : {2U, 3U, 1U, 4U, 5U}) {
      for (std::size_t nodes = 1; nodes * node_size <= 6 && nodes <= 3 && !HasFailure(); ++nodes) {
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
          for (std::size_t step = 0; step < kSteps; ++step) sharded.step(step);
        };
        const std::string what = fmt::format("{} nodes, {}gathered", nodes, gathers ? "" : "not ");
        ultra::test::on_ranks(static_cast<int>(nodes * node_size), what, rank,
                              ultra::test::on_call());
      }
    }
  }
}

}  // namespace
}  // namespace ultra::zero

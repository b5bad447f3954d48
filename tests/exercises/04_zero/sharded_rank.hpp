#pragma once
/// @file
/// One rank of a sharded training, held against a rank that has everything.

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "chapters/04_zero/zero_step.hpp"
#include "tests/exercises/04_zero/one_rank.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/ranks/on_ranks.hpp"

namespace ultra::zero::test {

/// @brief Which weights a rank keeps.
enum class Keeps { kEverything, kItsShard };

/// @brief Makes steps on its shard of each array.
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

  /// @brief Makes a step and holds it against what one rank has.
  void step(int step, const Expected& expected) {
    const CommStats before = groups_.dp.stats();
    add_up(step);
    if (step + 1 == Training::kSteps) ultra::test::come_late(groups_.dp);
    update(step, {kLearningRate, expected.norm, training_.clip_norm});
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
      const Tensor shard =
          keeps_ == Keeps::kEverything ? weights_[a].slice(0, own(a)) : weights_[a];
      for (const Piece& piece : pieces_of(layouts_[a], groups_.shards.rank())) {
        updates_.push_back({.value = shard.slice(0, piece.place),
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
    step_own_shard(updates_, gathers ? weights_ : std::vector<Tensor>(), rule, optimizer_,
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
    const Range place =
        keeps_ == Keeps::kEverything ? Range{0, layouts_[array].padded} : own(array);
    after = {after.begin() + static_cast<std::ptrdiff_t>(place.begin),
             after.begin() + static_cast<std::ptrdiff_t>(place.end)};
    const auto same = groups_.replicas ? ultra::test::all_near(weights_[array], after, 1e-10)
                                       : ultra::test::all_equal(weights_[array], after);
    EXPECT_TRUE(same) << "array " << array << " on rank " << groups_.dp.rank() << " after step "
                      << step << "\nHint: " << (same ? "" : hint(array, step, expected, place));
  }

  /// @param place  of this rank's weights in the array.
  [[nodiscard]] const char* hint(std::size_t array, int step, const Expected& expected,
                                 Range place) const {
    const Values found = weights_[array].to_vector();
    const auto equal = [&](const Values& whole, bool in_own_shard) {
      for (std::size_t i = place.begin; i < std::min(place.end, whole.size()); ++i) {
        const bool is_own = i >= own(array).begin && i < own(array).end;
        const double distance = std::abs(found[i - place.begin] - whole[i]);
        if (is_own == in_own_shard && distance > 1e-9 * std::abs(whole[i])) return false;
      }
      return true;
    };
    const auto stepped_by = [&](double norm) {
      OneRank one(training_);
      one.add_up(step);
      one.update(optim::clip_coefficient(norm, training_.clip_norm));
      return one.weights(array);
    };
    if (equal(expected.after[array], true)) {
      return equal(expected.before[array], false)
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

}  // namespace ultra::zero::test

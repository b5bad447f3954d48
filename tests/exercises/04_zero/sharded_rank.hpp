#pragma once
/// @file
/// One rank of a sharded training, held against a rank that has everything.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "chapters/04_zero/flat_layout.hpp"
#include "chapters/04_zero/zero_step.hpp"
#include "common/optim/adamw.hpp"
#include "common/optim/clip.hpp"
#include "common/tensor/tensor.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/random.hpp"
#include "tests/support/ranks/on_ranks.hpp"

namespace ultra::zero::test {

using Values = std::vector<double>;

inline constexpr double kLearningRate = 0.05;
inline constexpr double kClipNorm = 0.1;
// Large enough that an update depends on the size of the gradient, not on its direction alone.
inline constexpr optim::AdamWConfig kAdamW{.epsilon = 0.1};

/// @brief Flat arrays of weights, and gradients of some steps.
struct Training {
  std::vector<std::vector<std::size_t>> counts;  ///< by array: elements of its tensors
  int ranks = 1;
  DType dtype = DType::kF32;
  double clip_norm = kClipNorm;
  std::uint64_t seed = 0;

  static constexpr int kSteps = 3;

  [[nodiscard]] std::string str() const {
    std::string all = fmt::format("{} ranks, {}, clip norm {}", ranks, to_string(dtype), clip_norm);
    for (const auto& array : counts) {
      all += ", an array of";
      for (const std::size_t count : array) all += fmt::format(" {}", count);
    }
    return all;
  }
  [[nodiscard]] FlatLayout layout(std::size_t array, int shards) const {
    return flat_layout(counts[array], shards);
  }
  [[nodiscard]] static bool decays(std::size_t tensor) { return tensor % 2 == 0; }

  /// The elements of an array, and zeros up to `padded`; what `salt` says.
  [[nodiscard]] Tensor numbers(const Device& device, std::size_t array, std::size_t padded,
                               std::uint64_t salt, MemoryCategory category) const {
    const Tensor all = Tensor::zeros(device, {padded}, dtype, category);
    ultra::test::Random random(seed + 1000 * salt + array);
    random.fill(all.slice(0, {0, layout(array, 1).count}), 1.0);
    return all;
  }
  [[nodiscard]] Tensor weights(const Device& device, std::size_t array, std::size_t padded) const {
    return numbers(device, array, padded, 0, MemoryCategory::kParameters);
  }
  [[nodiscard]] Tensor gradient(const Device& device, std::size_t array, std::size_t padded,
                                int step, int rank) const {
    return numbers(device, array, padded, static_cast<std::uint64_t>(1 + step * ranks + rank),
                   MemoryCategory::kGradients);
  }
};

/// @brief One rank that has all weights and makes the steps on the sums.
class OneRank {
 public:
  explicit OneRank(const Training& training) : training_(training) {
    for (std::size_t a = 0; a < training.counts.size(); ++a) {
      weights_.push_back(training.weights(device_, a, training.layout(a, 1).count));
    }
  }

  /// Adds up the gradients, in the order of the ranks.
  void add_up(int step) {
    gradients_.clear();
    for (std::size_t a = 0; a < weights_.size(); ++a) {
      gradients_.push_back(training_.gradient(device_, a, weights_[a].numel(), step, 0));
      dispatch_float(training_.dtype, [&]<class T>() {
        const std::span<T> sum = gradients_[a].template span<T>();
        for (int rank = 1; rank < training_.ranks; ++rank) {
          const Tensor theirs = training_.gradient(device_, a, sum.size(), step, rank);
          for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += theirs.template span<T>()[i];
        }
      });
    }
  }

  [[nodiscard]] double norm() const { return optim::global_norm(gradients_); }

  void update(double scale) {
    std::vector<optim::TensorUpdate> updates;
    for (std::size_t a = 0; a < weights_.size(); ++a) {
      const std::vector<Range> places = training_.layout(a, 1).places;
      for (std::size_t tensor = 0; tensor < places.size(); ++tensor) {
        updates.push_back({.value = weights_[a].slice(0, places[tensor]),
                           .grad = gradients_[a].slice(0, places[tensor]),
                           .decay = Training::decays(tensor)});
      }
    }
    optimizer_.step(updates, kLearningRate, scale);
  }

  /// Weights of an array, without padding.
  [[nodiscard]] Values weights(std::size_t array) const { return weights_[array].to_vector(); }

 private:
  Training training_;
  Device device_ = Device::cpu();
  std::vector<Tensor> weights_;
  std::vector<Tensor> gradients_;
  optim::Optimizer optimizer_{optim::adamw(kAdamW)};
};

/// @brief What one rank must have after a step.
struct Expected {
  double norm = 0;
  std::vector<Values> before;  ///< by array: weights without padding
  std::vector<Values> after;
};

inline std::vector<Expected> train_on_one_rank(const Training& training) {
  OneRank one(training);
  std::vector<Expected> steps;
  const auto all_weights = [&] {
    std::vector<Values> all;
    for (std::size_t a = 0; a < training.counts.size(); ++a) all.push_back(one.weights(a));
    return all;
  };
  for (int step = 0; step < Training::kSteps; ++step) {
    Expected expected;
    expected.before = all_weights();
    one.add_up(step);
    expected.norm = one.norm();
    one.update(optim::clip_coefficient(expected.norm, training.clip_norm));
    expected.after = all_weights();
    steps.push_back(expected);
  }
  return steps;
}

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

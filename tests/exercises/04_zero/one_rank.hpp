#pragma once
/// @file
/// Some steps of AdamW on flat arrays, made by one rank that has everything: what sharded steps
/// must match.

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "chapters/04_zero/flat_layout.hpp"
#include "common/optim/adamw.hpp"
#include "common/optim/clip.hpp"
#include "common/tensor/tensor.hpp"
#include "tests/support/random.hpp"

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

}  // namespace ultra::zero::test

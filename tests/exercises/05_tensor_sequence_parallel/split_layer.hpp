#pragma once
/// @file
/// What the checks of layers with parts of their weights share: a rank's layer and what it has
/// computed, held against the layer on one rank with everything. A Case adds to SplitCase its
/// Layer, and which parts of whole arrays a rank has.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/exercises/05_tensor_sequence_parallel/dense_truth.hpp"
#include "tests/exercises/05_tensor_sequence_parallel/fake_region.hpp"
#include "tests/exercises/05_tensor_sequence_parallel/split_case.hpp"
#include "tests/support/on_ranks.hpp"

namespace ultra::tensor_parallel::test {

inline constexpr const char* kOverwritten =
    "Hint: only the last micro-batch is there: the work that add_grad() runs is told whether to "
    "overwrite the gradient or to add to it.";

/// @brief What a rank has of an array: a range of one dimension.
struct Part {
  int dim;
  Range range;
};

template <class Array>
[[nodiscard]] Array part_of(const Array& whole, Part part) {
  return whole.slice(part.dim, part.range);
}

/// @brief What a layer is given, on one rank with everything; of all micro-batches.
struct LayerData {
  Tensor x;
  std::vector<Tensor> weights;  ///< by parameter
  std::vector<Tensor> d_y;      ///< by output

  /// Inputs and output gradients times factors.
  [[nodiscard]] LayerData times(double x_factor, double d_y_factor) const {
    LayerData data{.x = scaled(x, x_factor), .weights = weights, .d_y = {}};
    for (const Tensor& d : d_y) data.d_y.push_back(scaled(d, d_y_factor));
    return data;
  }
  /// Some sequences, or some tokens of all.
  [[nodiscard]] LayerData only(Part part) const {
    LayerData data{.x = part_of(x, part).contiguous(), .weights = weights, .d_y = {}};
    for (const Tensor& d : d_y) data.d_y.push_back(part_of(d, part).contiguous());
    return data;
  }
};

/// @brief What a mistake makes of whole arrays, and what to say about it.
struct Wrong {
  LinearPass pass;
  const char* hint;
};
using Suspects = std::vector<Wrong>;

/// @brief A layer of one output as a layer of several.
template <class One>
class OneOutput {
 public:
  template <class... Arguments>
  explicit OneOutput(Arguments&&... arguments) : layer_(std::forward<Arguments>(arguments)...) {}

  std::vector<Tensor> forward(const Tensor& x, nn::Saved& saved) {
    return {layer_.forward(x, saved)};
  }
  Tensor backward(const std::vector<Tensor>& d_y, nn::Saved& saved) {
    return layer_.backward(d_y[0], saved);
  }
  std::vector<nn::Parameter*> parameters() { return layer_.parameters(); }

 private:
  One layer_;
};

/// @brief One rank's layer, with its part of the weights.
template <class Case>
class Rank {
 public:
  /// @param context  what the layer is made of beside its parameters.
  template <class Context>
  Rank(const Case& c, const LayerData& data, int rank, const Context& context)
      : case_(c), data_(data), rank_(rank), layer_(own_weights(), context) {}

  void forward(std::size_t micro_batch) {
    inputs.push_back(
        copy_to(device, part_of(sequences(data_.x, micro_batch), case_.x_part(rank_))));
    saved.emplace_back();
    outputs.push_back(layer_.forward(inputs.back(), saved.back()));
  }
  void backward(std::size_t micro_batch) {
    std::vector<Tensor> d_y;
    for (std::size_t i = 0; i < data_.d_y.size(); ++i) {
      d_y.push_back(
          copy_to(device, part_of(sequences(data_.d_y[i], micro_batch), case_.y_part(i, rank_))));
    }
    d_x.push_back(layer_.backward(d_y, saved[micro_batch]));
    d_outputs.push_back(d_y);
  }
  void forward_all() {
    for (std::size_t m = 0; m < case_.micro_batches; ++m) forward(m);
  }
  void backward_all() {
    for (std::size_t m = 0; m < case_.micro_batches; ++m) backward(m);
  }

  void expect_outputs(const LinearPass& truth, const Suspects& wrong, const char* hint) const {
    for (std::size_t m = 0; m < outputs.size(); ++m) {
      ASSERT_EQ(outputs[m].size(), data_.d_y.size()) << "Hint: one output per map.";
      for (std::size_t i = 0; i < data_.d_y.size(); ++i) {
        expect_same(fmt::format("output {} of micro-batch {}", i, m), outputs[m][i], truth, wrong,
                    hint, [&](const LinearPass& pass) {
                      return part_of(sequences(pass.y[i], m), case_.y_part(i, rank_));
                    });
      }
    }
  }
  void expect_input_gradients(const LinearPass& truth, const Suspects& wrong,
                              const char* hint) const {
    for (std::size_t m = 0; m < d_x.size(); ++m) {
      expect_same(fmt::format("gradient of the input of micro-batch {}", m), d_x[m], truth, wrong,
                  hint, [&](const LinearPass& pass) {
                    return part_of(sequences(pass.d_x, m), case_.x_part(rank_));
                  });
    }
  }
  void expect_weight_gradient(std::size_t i, const LinearPass& truth, const Suspects& wrong,
                              const char* hint) {
    expect_same("gradient of " + Case::name_of(i), gradient(i), truth, wrong, hint,
                [&](const LinearPass& pass) {
                  return part_of(pass.d_weights[i], case_.weight_part(i, rank_));
                });
  }

  [[nodiscard]] std::vector<nn::Parameter*> parameters() { return layer_.parameters(); }
  [[nodiscard]] Tensor gradient(std::size_t i) { return parameters()[i]->grad(); }
  [[nodiscard]] int number() const { return rank_; }

  Device device = Device::cpu();
  std::vector<nn::Saved> saved;  // by micro-batch, as all of these
  std::vector<Tensor> inputs;
  std::vector<std::vector<Tensor>> outputs;
  std::vector<std::vector<Tensor>> d_outputs;
  std::vector<Tensor> d_x;

 private:
  template <class Array>
  [[nodiscard]] Array sequences(const Array& whole, std::size_t micro_batch) const {
    return whole.slice(0, case_.sequences_of(micro_batch));
  }
  /// As near() the truth; else the hint of the first suspect that was found.
  template <class PartOf>
  void expect_same(const std::string& what, const Tensor& found, const LinearPass& truth,
                   const Suspects& wrong, std::string hint, const PartOf& own) const {
    const auto is = [&](const LinearPass& pass) {
      return near(found, own(pass), case_.roundings());
    };
    const auto suspect = std::find_if(wrong.begin(), wrong.end(),
                                      [&](const Wrong& other) { return !!is(other.pass); });
    if (suspect != wrong.end()) hint = suspect->hint;
    EXPECT_TRUE(is(truth)) << what << " on rank " << rank_ << "\n" << hint;
    EXPECT_TRUE(!found.defined() || found.dtype() == case_.dtype) << what << "'s dtype";
  }
  [[nodiscard]] std::vector<std::unique_ptr<nn::Parameter>> own_weights() const {
    std::vector<std::unique_ptr<nn::Parameter>> own;
    for (std::size_t i = 0; i < data_.weights.size(); ++i) {
      own.push_back(make_parameter(device, Case::name_of(i),
                                   part_of(data_.weights[i], case_.weight_part(i, rank_))));
    }
    return own;
  }

  Case case_;
  LayerData data_;
  int rank_;
  typename Case::Layer layer_;
};

/// @brief A rank beside a region that multiplies, and tells what it was asked for.
template <class Case>
struct Alone : Rank<Case> {
  Alone(const Case& c, const LayerData& data) : Alone(c, data, std::make_shared<FakeRegion>()) {}
  Alone(const Case& c, const LayerData& data, const std::shared_ptr<FakeRegion>& fake)
      : Rank<Case>(c, data, 0, fake), region(fake) {}

  /// That many calls of a function of the region, and waits for them; nothing else.
  void expect_two_calls(const char* function, const char* hint, const char* nothing_else) const {
    EXPECT_EQ(region->count(function), 2U) << "calls of " << function << " in two passes\n" << hint;
    EXPECT_EQ(region->events().size(), 4U) << nothing_else;
  }

  /// After a pass forward: the input itself, and no more bytes; after a pass backward nothing.
  void expect_saved(const char* not_a_copy, const char* nothing_else) {
    const nn::Saved& kept = this->saved[0];
    ASSERT_TRUE(kept.has("input")) << "Hint: saved.put(\"input\", x).";
    EXPECT_TRUE(kept.get("input").shares_storage(this->inputs[0])) << not_a_copy;
    EXPECT_EQ(kept.bytes(), this->inputs[0].nbytes()) << "bytes that are saved\n" << nothing_else;
    this->backward(0);
    EXPECT_TRUE(kept.empty()) << "Hint: the backward pass takes what the forward pass saved.";
  }

  /// What the first micro-batch was given still holds what it held.
  void expect_unchanged(const Case& c, const LayerData& data, const char* input_hint,
                        const char* gradient_hint) const {
    const LayerData first = data.only({0, c.sequences_of(0)});
    EXPECT_TRUE(unchanged(this->inputs[0], first.x)) << input_hint;
    for (std::size_t i = 0; i < first.d_y.size(); ++i) {
      EXPECT_TRUE(unchanged(this->d_outputs[0][i], first.d_y[i])) << gradient_hint;
    }
  }

  /// All passes; gradients are made behind them, when the layer's tensors are gone.
  void run_deferred(const char* hint) {
    nn::DeferredGradients queue;
    for (nn::Parameter* parameter : this->parameters()) parameter->defer_grads_to(&queue);
    this->forward_all();
    this->backward_all();
    for (nn::Parameter* parameter : this->parameters()) {
      EXPECT_FALSE(parameter->grad().defined()) << hint;
    }
    this->d_outputs.clear();
    this->saved.clear();
    queue.run();
  }

  std::shared_ptr<FakeRegion> region;
};

/// @brief All passes on ranks; `check` is called with each, and returns what must be the same on
/// all of them without sequence parallelism.
template <class Case, class Check>
void train_on_ranks(const Case& c, const LayerData& data, const char* shapes, const char* same,
                    const Check& check) {
  std::vector<Tensor> found(as_size(c.ranks));
  const auto train = [&](Communicator& tp) {
    Rank<Case> rank(c, data, tp.rank(), c.context(tp));
    rank.forward_all();
    rank.backward_all();
    tp.barrier();
    found[as_size(tp.rank())] = check(rank);
  };
  ultra::test::on_ranks(c.ranks, c.str(), train, {}, shapes);
  if (::testing::Test::HasFailure() || c.splits_sequences()) return;
  for (const Tensor& other : found) {
    EXPECT_TRUE(ultra::test::all_equal(other, found[0])) << same;
  }
}

/// @brief Bytes that a rank sends in a pass; and what a gather, and a reduce-scatter, of the split
/// array sends. An all-reduce is both.
struct Sent {
  std::size_t forward;
  std::size_t backward;
  std::size_t gather;
  std::size_t scatter;
};

/// @param features  of the array that is split outside the region.
template <class Case>
void count_on_ranks(const Case& c, const LayerData& data, std::size_t features, const char* shapes,
                    const std::function<void(const Sent&)>& check) {
  const auto count = [&](Communicator& tp) {
    Rank<Case> rank(c, data, tp.rank(), c.context(tp));
    rank.forward(0);
    tp.barrier();
    const std::size_t forward = tp.stats().sent_bytes();
    rank.backward(0);
    tp.barrier();
    // The chunks of a ring need not be equal.
    const std::size_t n = c.batch * c.seq() * features;
    const std::size_t own = comm::Chunks::even({0, n}, c.ranks)[tp.rank()].size();
    check({.forward = forward,
           .backward = tp.stats().sent_bytes() - forward,
           .gather = as_size(c.ranks - 1) * own * size_of(c.dtype),
           .scatter = (n - own) * size_of(c.dtype)});
  };
  ultra::test::on_ranks(c.ranks, c.str(), count, {}, shapes);
}

}  // namespace ultra::tensor_parallel::test

#pragma once
/// @file
/// What the checks of layers with parts of their weights share: a rank's layer and what it has
/// computed, held against the layer on one rank with everything.

#include "chapters/05_tensor_sequence_parallel/tensor_parallel_layout.hpp"
#include "common/nn/layers/linear.hpp"
#include "tests/exercises/05_tensor_sequence_parallel/fake_region.hpp"
#include "tests/exercises/05_tensor_sequence_parallel/whole_numbers.hpp"
#include "tests/support/ranks/on_ranks.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::tensor_parallel::test {

/// @brief Same shape, and the same numbers: sums of whole numbers are exact in any order.
inline ::testing::AssertionResult same(const Tensor& found, const Tensor& expected) {
  if (!found.defined()) return ::testing::AssertionFailure() << "there is none";
  if (found.shape() != expected.shape()) {
    return ::testing::AssertionFailure() << fmt::format(
               "found the shape {}, expected {}", found.shape().str(), expected.shape().str());
  }
  return ultra::test::all_equal(found, expected.to_vector());
}

/// @brief Linear maps of one input, forward and backward.
struct LinearPass {
  std::vector<Tensor> y;  ///< by map
  Tensor d_x;
  std::vector<Tensor> d_weights;  ///< by map
};

/// @brief The dense layer's pass, with everything converted to f64.
inline LinearPass dense_pass(const Tensor& x, const std::vector<Tensor>& weights,
                             const std::vector<Tensor>& d_y) {
  std::vector<nn::ParameterSpec> specs;
  std::vector<Tensor> d_outputs;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    specs.push_back({.name = fmt::format("map {}", i),
                     .global_shape = weights[i].shape(),
                     .shard = {},
                     .initializer = {}});
    d_outputs.push_back(d_y[i].to(DType::kF64));
  }
  nn::DenseProjections maps(specs, x.device(), DType::kF64, 0, nn::Values::kDeferred);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    maps.parameters()[i]->set_value(weights[i].to(DType::kF64));
  }
  nn::Saved saved;
  LinearPass pass{.y = maps.forward(x.to(DType::kF64), saved), .d_x = {}, .d_weights = {}};
  pass.d_x = maps.backward(d_outputs, saved);
  for (const nn::Parameter* parameter : maps.parameters()) {
    pass.d_weights.push_back(parameter->grad());
  }
  return pass;
}

inline constexpr const char* kOverwritten =
    "Hint: only the last micro-batch is there: the work that add_grad() runs is told whether to "
    "overwrite the gradient or to add to it.";
inline constexpr const char* kDeferred =
    "Hint: a gradient is written by the work that add_grad() is given, which may run much later: "
    "it holds the tensors that it reads.";

/// @brief Along which dimension of an array the ranks have equal parts, in their order; along the
/// tokens only with sequence parallelism.
enum class Along { kWhole, kFirst, kTokens, kLast };

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
  /// Some sequences (dimension 0), or some tokens of all (dimension 1).
  [[nodiscard]] LayerData only(int dim, Range range) const {
    LayerData data{.x = x.slice(dim, range).contiguous(), .weights = weights, .d_y = {}};
    for (const Tensor& d : d_y) data.d_y.push_back(d.slice(dim, range).contiguous());
    return data;
  }
};

/// @brief A layer on ranks: what it is given, and what each rank has of that.
struct Split {
  struct Weight {
    std::string name;
    Along along;
  };
  int ranks = 1;
  SequenceParallel sequence_parallel = SequenceParallel::kOff;
  DType dtype = DType::kF32;
  std::size_t micro_batches = 1;
  std::size_t batch = 1;  ///< sequences of a micro-batch
  std::size_t seq = 1;
  Along x_along = Along::kWhole;
  Along y_along = Along::kWhole;
  std::vector<Weight> weights = {};
  LayerData data = {};

  [[nodiscard]] bool splits_sequences() const { return sequence_parallel == SequenceParallel::kOn; }
  [[nodiscard]] std::size_t sequences() const { return micro_batches * batch; }
  [[nodiscard]] Range sequences_of(std::size_t micro_batch) const {
    return {micro_batch * batch, (micro_batch + 1) * batch};
  }
  [[nodiscard]] LayerData last_micro_batch(const LayerData& of) const {
    return of.only(0, sequences_of(micro_batches - 1));
  }
  /// The tokens that a rank has outside the region.
  [[nodiscard]] Range tokens_of(int rank) const {
    const std::size_t local_seq = splits_sequences() ? seq / as_size(ranks) : seq;
    const std::size_t begin = splits_sequences() ? as_size(rank) * local_seq : 0;
    return {begin, begin + local_seq};
  }
  [[nodiscard]] Tensor part_of(const Tensor& whole, Along along, int rank) const {
    if (along == Along::kWhole) return whole;
    if (along == Along::kTokens) return whole.slice(1, tokens_of(rank));
    const int dim = along == Along::kFirst ? 0 : -1;
    const std::size_t size = whole.size(dim) / as_size(ranks);
    return whole.slice(dim, {as_size(rank) * size, (as_size(rank) + 1) * size});
  }
  [[nodiscard]] std::string str() const {
    std::string all =
        fmt::format("{}, sequence parallelism {}, {} micro-batches of {} sequences of {} tokens",
                    to_string(dtype), splits_sequences() ? "on" : "off", micro_batches, batch, seq);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      all += fmt::format(", {} {}", weights[i].name, data.weights[i].shape().str());
    }
    return all;
  }
};

/// @brief A fixture that draws what is not the layer's own.
class SplitTest : public ultra::test::RandomTest {
 protected:
  Split draw_split(int ranks, SequenceParallel sequence_parallel, DType dtype) {
    return {.ranks = ranks,
            .sequence_parallel = sequence_parallel,
            .dtype = dtype,
            .micro_batches = random.between(1, 2),
            .batch = random.between(1, 3),
            .seq = random.between(1, 4) *
                   (sequence_parallel == SequenceParallel::kOn ? as_size(ranks) : 1)};
  }
  /// Two micro-batches on one rank.
  Split draw_alone(DType dtype) {
    Split alone = draw_split(1, SequenceParallel::kOff, dtype);
    alone.micro_batches = 2;
    return alone;
  }
  /// Calls check(split) for any number of ranks, with and without sequence parallelism, until one
  /// fails.
  template <class Check>
  void for_splits(const Check& check) {
    for (const auto sequence_parallel : {SequenceParallel::kOff, SequenceParallel::kOn}) {
      for_ranks({1, 2, 3, 4, 8}, [&](int ranks, DType dtype) {
        check(draw_split(ranks, sequence_parallel, dtype));
      });
    }
  }
};

/// @brief What mistakes make of whole arrays, and what to say about them.
using Suspects = std::vector<std::pair<LinearPass, const char*>>;

/// @brief One rank's layer, with its part of the weights.
template <class Layer>
class Rank {
 public:
  Rank(const Split& of, int rank, const std::shared_ptr<Region>& region)
      : split(of), rank_(rank), layer_(own_weights(), region) {}

  void forward(std::size_t m) {
    inputs.push_back(
        copy_to(device, split.part_of(sequences(split.data.x, m), split.x_along, rank_)));
    saved.emplace_back();
    outputs.push_back(layer_.forward(inputs.back(), saved.back()));
  }
  void backward(std::size_t m) {
    std::vector<Tensor> d_y;
    for (const Tensor& d : split.data.d_y) {
      d_y.push_back(copy_to(device, split.part_of(sequences(d, m), split.y_along, rank_)));
    }
    d_x.push_back(layer_.backward(d_y, saved[m]));
    d_outputs.push_back(d_y);
  }
  void forward_all() {
    for (std::size_t m = 0; m < split.micro_batches; ++m) forward(m);
  }
  void backward_all() {
    for (std::size_t m = 0; m < split.micro_batches; ++m) backward(m);
  }

  void expect_outputs(const LinearPass& truth, const Suspects& wrong, const char* hint) const {
    for (std::size_t m = 0; m < outputs.size(); ++m) {
      ASSERT_EQ(outputs[m].size(), split.data.d_y.size()) << "Hint: one output per map.";
      for (std::size_t i = 0; i < outputs[m].size(); ++i) {
        expect_same(fmt::format("output {} of micro-batch {}", i, m), outputs[m][i], truth, wrong,
                    hint, [&](const LinearPass& pass) {
                      return split.part_of(sequences(pass.y[i], m), split.y_along, rank_);
                    });
      }
    }
  }
  void expect_input_gradients(const LinearPass& truth, const Suspects& wrong,
                              const char* hint) const {
    for (std::size_t m = 0; m < d_x.size(); ++m) {
      expect_same(fmt::format("gradient of the input of micro-batch {}", m), d_x[m], truth, wrong,
                  hint, [&](const LinearPass& pass) {
                    return split.part_of(sequences(pass.d_x, m), split.x_along, rank_);
                  });
    }
  }
  void expect_weight_gradient(std::size_t i, const LinearPass& truth, const Suspects& wrong,
                              const char* hint) {
    expect_same("gradient of " + split.weights[i].name, parameters()[i]->grad(), truth, wrong, hint,
                [&](const LinearPass& pass) {
                  return split.part_of(pass.d_weights[i], split.weights[i].along, rank_);
                });
  }

  [[nodiscard]] std::vector<nn::Parameter*> parameters() { return layer_.parameters(); }
  [[nodiscard]] int number() const { return rank_; }

  Split split;
  Device device = Device::cpu();
  std::vector<nn::Saved> saved;  // by micro-batch, as all of these
  std::vector<Tensor> inputs;
  std::vector<std::vector<Tensor>> outputs;
  std::vector<std::vector<Tensor>> d_outputs;
  std::vector<Tensor> d_x;

 private:
  [[nodiscard]] Tensor sequences(const Tensor& whole, std::size_t micro_batch) const {
    return whole.slice(0, split.sequences_of(micro_batch));
  }
  /// The truth; else the hint of the first suspect that was found.
  template <class PartOf>
  void expect_same(const std::string& what, const Tensor& found, const LinearPass& truth,
                   const Suspects& wrong, std::string hint, const PartOf& own) const {
    const auto is = [&](const LinearPass& pass) { return same(found, own(pass)); };
    const auto suspect =
        std::ranges::find_if(wrong, [&](const auto& other) { return !!is(other.first); });
    if (suspect != wrong.end()) hint = suspect->second;
    EXPECT_TRUE(is(truth)) << what << " on rank " << rank_ << "\n" << hint;
    EXPECT_TRUE(!found.defined() || found.dtype() == split.dtype) << what << "'s dtype";
  }
  [[nodiscard]] std::vector<std::unique_ptr<nn::Parameter>> own_weights() const {
    std::vector<std::unique_ptr<nn::Parameter>> own;
    for (std::size_t i = 0; i < split.weights.size(); ++i) {
      own.push_back(
          make_parameter(device, split.weights[i].name,
                         split.part_of(split.data.weights[i], split.weights[i].along, rank_)));
    }
    return own;
  }

  int rank_;
  Layer layer_;
};

/// @brief A rank beside a region that multiplies, and tells what it was asked for.
template <class Layer>
struct Alone : Rank<Layer> {
  explicit Alone(const Split& of) : Alone(of, std::make_shared<FakeRegion>()) {}
  Alone(const Split& of, const std::shared_ptr<FakeRegion>& fake)
      : Rank<Layer>(of, 0, fake), region(fake) {}

  /// That many calls of a function of the region, and waits for them; nothing else.
  void expect_two_calls(const char* function, const char* hint, const char* nothing_else) const {
    EXPECT_EQ(region->count(function), 2U) << "calls of " << function << " in two passes\n" << hint;
    EXPECT_EQ(region->events().size(), 4U) << nothing_else;
  }

  /// A pass forward keeps the input itself, and no more bytes; a pass backward nothing. Neither
  /// writes to what it was given.
  void expect_saved(const char* not_a_copy, const char* nothing_else, const char* read_only) {
    this->forward(0);
    const nn::Saved& kept = this->saved[0];
    ASSERT_TRUE(kept.has("input")) << "Hint: saved.put(\"input\", x).";
    EXPECT_TRUE(kept.get("input").shares_storage(this->inputs[0])) << not_a_copy;
    EXPECT_EQ(kept.bytes(), this->inputs[0].nbytes()) << "bytes that are saved\n" << nothing_else;
    this->backward(0);
    EXPECT_TRUE(kept.empty()) << "Hint: the backward pass takes what the forward pass saved.";
    const LayerData first = this->split.data.only(0, this->split.sequences_of(0));
    EXPECT_TRUE(ultra::test::all_equal(this->inputs[0], first.x)) << read_only;
    for (std::size_t i = 0; i < first.d_y.size(); ++i) {
      EXPECT_TRUE(ultra::test::all_equal(this->d_outputs[0][i], first.d_y[i])) << read_only;
    }
  }

  /// All passes; gradients are made behind them, when the layer's tensors are gone.
  void run_deferred() {
    nn::DeferredGradients queue;
    for (nn::Parameter* parameter : this->parameters()) parameter->defer_grads_to(&queue);
    this->forward_all();
    this->backward_all();
    for (nn::Parameter* parameter : this->parameters()) {
      EXPECT_FALSE(parameter->grad().defined()) << kDeferred;
    }
    this->d_outputs.clear();
    this->saved.clear();
    queue.run();
  }

  std::shared_ptr<FakeRegion> region;
};

/// @brief All passes on ranks; `check` is called with each.
template <class Layer, class Check>
void train_on_ranks(const Split& c, const char* shapes, const Check& check) {
  const auto train = [&](Communicator& tp) {
    Rank<Layer> rank(c, tp.rank(), make_region(tp, c.sequence_parallel));
    rank.forward_all();
    rank.backward_all();
    tp.barrier().wait();
    check(rank);
  };
  ultra::test::on_ranks(c.ranks, c.str(), train, {}, shapes);
}

}  // namespace ultra::tensor_parallel::test

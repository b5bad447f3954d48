// Contract of exercise 05.2: the dense layer's numbers from parts of its weight, a bias that counts
// once, and what the region is asked for.
#include "chapters/05_tensor_sequence_parallel/row_parallel.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/exercises/05_tensor_sequence_parallel/dense_truth.hpp"
#include "tests/exercises/05_tensor_sequence_parallel/fake_region.hpp"
#include "tests/exercises/05_tensor_sequence_parallel/split_case.hpp"
#include "tests/support/on_ranks.hpp"
#include "tests/support/random.hpp"

namespace ultra::tensor_parallel {
namespace {

using test::as_size;
using test::FakeRegion;
using test::Known;

constexpr const char* kNotSummed =
    "Hint: this is only this rank's part of the sum: the parts leave the region to be added up.";
constexpr const char* kBiasBeforeTheSum =
    "Hint: the bias is in every rank's part, so the sum has it tp times: it is added behind the "
    "sum, where it counts once.";
constexpr const char* kNoBias = "Hint: the bias is missing; add_bias() adds it, in place.";
constexpr const char* kNotGathered =
    "Hint: this comes from d_y as it came, the tokens of this rank: leave_backward gives the "
    "gradient of all tokens, to which this rank's inputs belong.";
constexpr const char* kSummedAgain =
    "Hint: the gradient of a sum is the same for every part of it: nothing is added up backward. "
    "leave_backward hands it out, enter_backward would sum it.";
constexpr const char* kBiasOfAllTokens =
    "Hint: the bias' gradient is the sum over this rank's own tokens, d_y as it came. From the "
    "gathered rows every rank has the whole sum, and what adds the ranks' parts up makes it tp "
    "times too large.";
constexpr const char* kOverwritten =
    "Hint: only the last micro-batch is there: the work that add_grad() runs is told whether to "
    "overwrite the gradient or to add to it.";
constexpr const char* kReadOnly =
    "Hint: what the layer is given is read only: the residual stream goes on with the same d_y, "
    "and the backward pass needs the input.";
constexpr const char* kDeferred =
    "Hint: a gradient is written by the work that add_grad() is given, which may run much later: "
    "it holds the tensors that it reads.";
constexpr const char* kShapes =
    "Hint: outside the region a rank has local_seq tokens of each sequence, inside it all of them. "
    "x and the gradient that backward() returns are inside; y behind leave() and d_y are outside. "
    "leave_backward takes d_y inside.";

/// A linear map, of whose inputs each rank has the same number.
struct Case : test::SplitCase {
  bool bias;
  std::size_t inputs;  ///< of each rank
  std::size_t out_features;

  Case(const test::SplitCase& split, bool with_bias, ultra::test::Random& random)
      : SplitCase(split),
        bias(with_bias),
        inputs(random.between(1, 5)),
        out_features(random.between(1, 9)) {}

  [[nodiscard]] Range inputs_of(int rank) const {
    return {as_size(rank) * inputs, (as_size(rank) + 1) * inputs};
  }
  /// Length of the sums that gradients and outputs are.
  [[nodiscard]] double roundings() const {
    return static_cast<double>(inputs * as_size(ranks) + sequences() * seq() + out_features +
                               as_size(ranks) + 8);
  }
  [[nodiscard]] std::string str() const {
    return fmt::format("{}, {} inputs of each rank, {} outputs, {}", SplitCase::str(), inputs,
                       out_features, bias ? "with a bias" : "without a bias");
  }
};

/// What the layer is given, on one rank with everything.
struct Data {
  Tensor x;  ///< of all micro-batches
  Tensor weight;
  Tensor bias;
  Tensor d_y;

  Data(const Case& c, const Device& device, ultra::test::Random& random) {
    const std::size_t sequences = c.sequences();
    const std::size_t in_features = c.inputs * as_size(c.ranks);
    x = random.tensor(device, {sequences, c.seq(), in_features}, c.dtype);
    weight = random.tensor(device, {c.out_features, in_features}, c.dtype);
    bias = random.tensor(device, {c.out_features}, c.dtype);
    d_y = random.tensor(device, {sequences, c.seq(), c.out_features}, c.dtype);
  }
};

/// What the layer makes of them: a bias is a weight of one more input that is always 1.
struct Truth {
  Known y;
  Known d_x;
  Known d_weight;
  Known d_bias;
};

/// @param bias_factor  how often the bias counts.
Truth truth_of(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& d_y,
               double bias_factor = 1.0) {
  const std::size_t inputs = x.size(-1);
  const Tensor with_one = Tensor::empty(x.device(), x.shape().with(-1, inputs + 1), x.dtype());
  with_one.fill(1.0);
  with_one.slice(-1, {0, inputs}).copy_from(x);
  const Tensor with_bias =
      Tensor::empty(x.device(), weight.shape().with(-1, inputs + 1), x.dtype());
  with_bias.slice(-1, {0, inputs}).copy_from(weight);
  with_bias.slice(-1, {inputs, inputs + 1})
      .copy_from(test::scaled(bias, bias_factor).view({bias.numel(), 1}));
  const test::LinearPass pass = test::dense_pass(with_one, {with_bias}, {d_y});
  const Known d_bias = pass.d_weights[0].slice(-1, {inputs, inputs + 1});
  return {.y = pass.y[0],
          .d_x = pass.d_x.slice(-1, {0, inputs}),
          .d_weight = pass.d_weights[0].slice(-1, {0, inputs}),
          .d_bias = {.value = d_bias.value.reshape({bias.numel()}),
                     .magnitude = d_bias.magnitude.reshape({bias.numel()})}};
}

/// One rank's layer, with its inputs' part of the weight.
class Rank {
 public:
  Rank(const Case& c, const Data& data, int rank, std::shared_ptr<Region> region)
      : case_(c),
        data_(data),
        rank_(rank),
        layer_(test::make_parameter(device, "weight", data.weight.slice(1, c.inputs_of(rank))),
               c.bias ? test::make_parameter(device, "bias", data.bias) : nullptr,
               std::move(region)) {}

  void forward(std::size_t micro_batch) {
    inputs.push_back(test::copy_to(
        device,
        data_.x.slice(0, case_.sequences_of(micro_batch)).slice(-1, case_.inputs_of(rank_))));
    saved.emplace_back();
    outputs.push_back(layer_.forward(inputs.back(), saved.back()));
  }
  void backward(std::size_t micro_batch) {
    d_outputs.push_back(test::copy_to(
        device,
        data_.d_y.slice(0, case_.sequences_of(micro_batch)).slice(1, case_.tokens_of(rank_))));
    d_x.push_back(layer_.backward(d_outputs.back(), saved[micro_batch]));
  }

  [[nodiscard]] Tensor weight_gradient() { return layer_.parameters()[0]->grad(); }
  [[nodiscard]] Tensor bias_gradient() { return layer_.parameters()[1]->grad(); }
  [[nodiscard]] std::vector<nn::Parameter*> parameters() { return layer_.parameters(); }
  [[nodiscard]] int rank() const { return rank_; }

  Device device = Device::cpu();
  std::vector<nn::Saved> saved;  // by micro-batch, as all of these
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
  std::vector<Tensor> d_outputs;
  std::vector<Tensor> d_x;

 private:
  Case case_;
  Data data_;
  int rank_;
  RowParallelLinear layer_;
};

class RowParallelTest : public test::SplitTest {
 protected:
  Case on_one_rank(DType dtype, bool bias = true) { return {draw_alone(dtype), bias, random}; }
  template <class Check>
  void for_cases(const Check& check) {
    for_splits([&](const test::SplitCase& split) {
      check(Case(split, random.pick({true, true, false}), random));
    });
  }
};

// One rank, whose region tells what it was asked for ----------------------------------------------

/// A rank beside a region that multiplies what leaves by 8, and what comes back by 16.
class Alone {
 public:
  Alone(const Case& c, const Data& data)
      : region(std::make_shared<FakeRegion>()), rank(c, data, 0, region), case_(c), data_(data) {}

  void expect_outputs() {
    // The weight, or what is multiplied by it, carries the factor; the bias does not.
    const double leave = FakeRegion::kLeave;
    for (std::size_t m = 0; m < rank.outputs.size(); ++m) {
      const auto is = [&](double factor, double bias_factor) {
        const Truth truth = truth_of(test::scaled(data_.x, factor), data_.weight, data_.bias,
                                     data_.d_y, case_.bias ? bias_factor : 0.0);
        return test::near(rank.outputs[m], truth.y.slice(0, case_.sequences_of(m)),
                          case_.roundings());
      };
      EXPECT_TRUE(is(leave, 1)) << "output of micro-batch " << m << "\n"
                                << (is(leave, leave) ? kBiasBeforeTheSum
                                    : is(leave, 0)   ? kNoBias
                                    : is(1, 1)       ? kNotSummed
                                                     : "Hint: the sum of all parts x_r W_r^T, and "
                                                       "then the bias.");
    }
  }

  void expect_input_gradients() {
    for (std::size_t m = 0; m < rank.d_x.size(); ++m) {
      const auto is = [&](double factor) {
        return test::near(rank.d_x[m], pass(factor).d_x.slice(0, case_.sequences_of(m)),
                          case_.roundings());
      };
      EXPECT_TRUE(is(FakeRegion::kLeaveBackward))
          << "gradient of the input of micro-batch " << m << "\n"
          << hint(is);
    }
  }

  void expect_weight_gradient(const std::string& default_hint = "Hint: d_W += d_y^T x.") {
    const auto is = [&](double factor) {
      return test::near(rank.weight_gradient(), pass(factor).d_weight, case_.roundings());
    };
    const bool last = !!test::near(
        rank.weight_gradient(), last_pass(FakeRegion::kLeaveBackward).d_weight, case_.roundings());
    const std::string text = hint(is);
    EXPECT_TRUE(is(FakeRegion::kLeaveBackward)) << "gradient of the weight\n"
                                                << (last           ? kOverwritten
                                                    : text.empty() ? default_hint
                                                                   : text);
  }

  void expect_bias_gradient(const std::string& default_hint = "Hint: the sum of d_y's rows.") {
    if (!case_.bias) return;
    const auto is = [&](const Truth& truth) {
      return test::near(rank.bias_gradient(), truth.d_bias, case_.roundings());
    };
    EXPECT_TRUE(is(pass(1))) << "gradient of the bias\n"
                             << (is(pass(FakeRegion::kLeaveBackward)) ? kBiasOfAllTokens
                                 : is(last_pass(1))                   ? kOverwritten
                                                                      : default_hint);
  }

  std::shared_ptr<FakeRegion> region;
  Rank rank;

 private:
  [[nodiscard]] Truth pass(double factor) const {
    return truth_of(data_.x, data_.weight, data_.bias, test::scaled(data_.d_y, factor));
  }
  [[nodiscard]] Truth last_pass(double factor) const {
    const Range last = case_.sequences_of(case_.micro_batches - 1);
    return truth_of(data_.x.slice(0, last).contiguous(), data_.weight, data_.bias,
                    test::scaled(data_.d_y.slice(0, last), factor));
  }
  template <class Is>
  [[nodiscard]] static std::string hint(const Is& is) {
    if (is(1)) return kNotGathered;
    return is(FakeRegion::kEnterBackward) ? kSummedAgain : "";
  }

  Case case_;
  Data data_;
};

TEST_F(RowParallelTest, PartsLeaveAndTheBiasCountsOnce) {
  for (const DType dtype : ultra::test::kFloatDTypes) {
    for (const bool bias : {true, false}) {
      const Case c = on_one_rank(dtype, bias);
      SCOPED_TRACE(c.str());
      Alone alone(c, Data(c, device, random));
      for (std::size_t m = 0; m < 2; ++m) alone.rank.forward(m);
      alone.expect_outputs();
      EXPECT_EQ(alone.region->count("leave"), 2U) << "calls of leave in two passes\n" << kNotSummed;
      EXPECT_EQ(alone.region->events().size(), 4U)
          << "Hint: a forward pass lets its part leave, and waits for the sum; nothing else.";
    }
  }
}

TEST_F(RowParallelTest, GradientsOfTwoMicroBatchesAreTheDenseLayers) {
  for (const DType dtype : ultra::test::kFloatDTypes) {
    for (const bool bias : {true, false}) {
      const Case c = on_one_rank(dtype, bias);
      SCOPED_TRACE(c.str());
      Alone alone(c, Data(c, device, random));
      for (std::size_t m = 0; m < 2; ++m) alone.rank.forward(m);
      alone.region->forget_events();
      for (std::size_t m = 0; m < 2; ++m) alone.rank.backward(m);
      alone.expect_input_gradients();
      alone.expect_weight_gradient();
      alone.expect_bias_gradient();
      EXPECT_EQ(alone.region->count("leave_backward"), 2U)
          << "calls of leave_backward in two passes\n"
          << kNotGathered;
      EXPECT_EQ(alone.region->events().size(), 4U)
          << "Hint: a backward pass takes the gradient through leave_backward, once; the gradient "
             "of the input needs nothing from other ranks.";
    }
  }
}

TEST_F(RowParallelTest, TheInputIsSavedAndNothingIsWrittenTo) {
  const Case c = on_one_rank(DType::kF32);
  const Data data(c, device, random);
  Alone alone(c, data);
  alone.rank.forward(0);
  const nn::Saved& saved = alone.rank.saved[0];
  const Tensor& x = alone.rank.inputs[0];
  ASSERT_TRUE(saved.has("input")) << "Hint: saved.put(\"input\", x).";
  EXPECT_TRUE(saved.get("input").shares_storage(x)) << "Hint: the input itself, not a copy.";
  EXPECT_EQ(saved.bytes(), x.nbytes())
      << "bytes that are saved\nHint: this rank's inputs, and nothing else.";
  alone.rank.backward(0);
  EXPECT_TRUE(saved.empty()) << "Hint: the backward pass takes what the forward pass saved.";
  const Range first = c.sequences_of(0);
  EXPECT_TRUE(test::unchanged(x, data.x.slice(0, first).contiguous())) << kReadOnly;
  EXPECT_TRUE(test::unchanged(alone.rank.d_outputs[0], data.d_y.slice(0, first).contiguous()))
      << kReadOnly;
}

TEST_F(RowParallelTest, GradientsCanBePutOff) {
  const Case c = on_one_rank(DType::kF64);
  Alone alone(c, Data(c, device, random));
  nn::DeferredGradients queue;
  for (nn::Parameter* parameter : alone.rank.parameters()) parameter->defer_grads_to(&queue);
  for (std::size_t m = 0; m < 2; ++m) {
    alone.rank.forward(m);
    alone.rank.backward(m);
  }
  EXPECT_FALSE(alone.rank.weight_gradient().defined()) << kDeferred;
  EXPECT_FALSE(alone.rank.bias_gradient().defined()) << kDeferred;
  alone.rank.d_outputs.clear();
  alone.rank.saved.clear();
  queue.run();
  alone.expect_weight_gradient(kDeferred);
  alone.expect_bias_gradient(kDeferred);
}

// Ranks together ----------------------------------------------------------------------------------

/// What a rank has after all micro-batches, held against one rank with everything.
void expect_rank(const Case& c, const Data& data, Rank& rank) {
  const std::string who = fmt::format(" on rank {}", rank.rank());
  const Range own_inputs = c.inputs_of(rank.rank());
  const Range own_tokens = c.tokens_of(rank.rank());
  const auto with_bias = [&](double factor) {
    return truth_of(data.x, data.weight, data.bias, data.d_y, c.bias ? factor : 0.0);
  };
  const Truth truth = with_bias(1);
  for (std::size_t m = 0; m < c.micro_batches; ++m) {
    const std::string of = fmt::format(" of micro-batch {}", m);
    const auto is = [&](const Truth& other) {
      return test::near(rank.outputs[m], other.y.slice(0, c.sequences_of(m)).slice(1, own_tokens),
                        c.roundings());
    };
    EXPECT_TRUE(is(truth)) << "output" << of << who << "\n"
                           << (is(with_bias(c.ranks)) ? kBiasBeforeTheSum
                               : is(with_bias(0))     ? kNoBias
                                                      : kNotSummed);
    EXPECT_TRUE(test::near(rank.d_x[m], truth.d_x.slice(0, c.sequences_of(m)).slice(-1, own_inputs),
                           c.roundings()))
        << "gradient of the input" << of << who << "\nHint: d_y of all tokens, times W_r.";
  }
  EXPECT_TRUE(
      test::near(rank.weight_gradient(), truth.d_weight.slice(1, own_inputs), c.roundings()))
      << "gradient of the weight" << who << "\nHint: from d_y of all tokens, and x.";
  if (!c.bias) return;
  const Truth own = truth_of(data.x.slice(1, own_tokens).contiguous(), data.weight, data.bias,
                             data.d_y.slice(1, own_tokens).contiguous());
  const auto is = [&](const Truth& other) {
    return test::near(rank.bias_gradient(), other.d_bias, c.roundings());
  };
  EXPECT_TRUE(is(own)) << "gradient of the bias" << who << "\n"
                       << (is(truth) ? kBiasOfAllTokens
                                     : "Hint: the sum over this rank's tokens of d_y.");
}

TEST_F(RowParallelTest, RanksTogetherAreTheDenseLayer) {
  for_cases([&](const Case& c) {
    const Data data(c, device, random);
    std::vector<Tensor> outputs(as_size(c.ranks));
    const auto train = [&](Communicator& tp) {
      Rank rank(c, data, tp.rank(), make_region(tp, c.sequence_parallel));
      for (std::size_t m = 0; m < c.micro_batches; ++m) rank.forward(m);
      for (std::size_t m = 0; m < c.micro_batches; ++m) rank.backward(m);
      tp.barrier();
      expect_rank(c, data, rank);
      outputs[as_size(tp.rank())] = rank.outputs[0];
    };
    ultra::test::on_ranks(c.ranks, c.str(), train, {}, kShapes);
    if (HasFailure() || c.splits_sequences()) return;
    for (const Tensor& other : outputs) {
      EXPECT_TRUE(ultra::test::all_equal(other, outputs[0]))
          << "Hint: without sequence parallelism all ranks have the same outputs, bit for bit.";
    }
  });
}

TEST_F(RowParallelTest, SendsOneSumForwardAndNothingElse) {
  for_cases([&](const Case& c) {
    const Data data(c, device, random);
    const auto count = [&](Communicator& tp) {
      Rank rank(c, data, tp.rank(), make_region(tp, c.sequence_parallel));
      rank.forward(0);
      tp.barrier();
      const std::size_t forward = tp.stats().sent_bytes();
      rank.backward(0);
      tp.barrier();
      const std::size_t backward = tp.stats().sent_bytes() - forward;
      // Of n elements, a gather or a reduce-scatter sends n (P - 1) / P; an all-reduce both, where
      // the chunks of a ring need not be equal.
      const std::size_t n = c.batch * c.seq() * c.out_features;
      const std::size_t own = comm::Chunks::even({0, n}, c.ranks)[tp.rank()].size();
      const std::size_t gather = as_size(c.ranks - 1) * own;
      const std::size_t bytes = size_of(c.dtype);
      EXPECT_EQ(forward, (n - own + (c.splits_sequences() ? 0 : gather)) * bytes)
          << "bytes sent forward\n"
          << kNotSummed;
      EXPECT_EQ(backward, (c.splits_sequences() ? gather : 0) * bytes) << "bytes sent backward\n"
                                                                       << kSummedAgain;
    };
    ultra::test::on_ranks(c.ranks, c.str(), count, {}, kShapes);
  });
}

}  // namespace
}  // namespace ultra::tensor_parallel

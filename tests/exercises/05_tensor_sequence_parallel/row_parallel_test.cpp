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

#include "tests/exercises/05_tensor_sequence_parallel/split_layer.hpp"
#include "tests/support/random.hpp"

namespace ultra::tensor_parallel {
namespace {

using test::as_size;
using test::FakeRegion;
using test::LayerData;
using test::LinearPass;
using test::Part;

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

struct RowLayer : test::OneOutput<RowParallelLinear> {
  RowLayer(std::vector<std::unique_ptr<nn::Parameter>> own, const std::shared_ptr<Region>& region)
      : OneOutput(std::move(own[0]), own.size() > 1 ? std::move(own[1]) : nullptr, region) {}
};

/// A linear map, of whose inputs each rank has the same number.
struct Case : test::SplitCase {
  using Layer = RowLayer;

  bool bias;
  std::size_t inputs;  ///< of each rank
  std::size_t out_features;

  Case(const test::SplitCase& split, bool with_bias, ultra::test::Random& random)
      : SplitCase(split),
        bias(with_bias),
        inputs(random.between(1, 5)),
        out_features(random.between(1, 9)) {}

  [[nodiscard]] Part x_part(int rank) const { return {-1, inputs_of(rank)}; }
  [[nodiscard]] Part y_part(std::size_t /*output*/, int rank) const { return {1, tokens_of(rank)}; }
  [[nodiscard]] Part weight_part(std::size_t parameter, int rank) const {
    return parameter == 0 ? Part{1, inputs_of(rank)} : Part{0, {0, out_features}};
  }
  [[nodiscard]] static std::string name_of(std::size_t parameter) {
    return parameter == 0 ? "weight" : "bias";
  }
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
using Alone = test::Alone<Case>;

/// What the layer makes of whole arrays: a bias is a weight of one more input that is always 1.
/// @param bias_factor  how often the bias counts.
LinearPass pass_of(const LayerData& data, double bias_factor = 1.0) {
  const Tensor& weight = data.weights[0];
  const std::size_t inputs = data.x.size(-1);
  const auto widened = [&](const Tensor& array, double last) {
    const Tensor wide =
        Tensor::empty(array.device(), array.shape().with(-1, inputs + 1), array.dtype());
    wide.fill(last);
    wide.slice(-1, {0, inputs}).copy_from(array);
    return wide;
  };
  const Range last = {inputs, inputs + 1};
  const Tensor with_bias = widened(weight, 0.0);
  if (data.weights.size() > 1) {
    with_bias.slice(-1, last).copy_from(
        test::scaled(data.weights[1], bias_factor).view({weight.size(0), 1}));
  }
  const LinearPass pass = test::dense_pass(widened(data.x, 1.0), {with_bias}, data.d_y);
  const test::Known d_bias = pass.d_weights[0].slice(-1, last);
  return {.y = pass.y,
          .d_x = pass.d_x.slice(-1, {0, inputs}),
          .d_weights = {pass.d_weights[0].slice(-1, {0, inputs}),
                        {.value = d_bias.value.reshape({weight.size(0)}),
                         .magnitude = d_bias.magnitude.reshape({weight.size(0)})}}};
}

class RowParallelTest : public test::SplitTest {
 protected:
  Case on_one_rank(DType dtype, bool bias = true) { return {draw_alone(dtype), bias, random}; }
  LayerData data_of(const Case& c) {
    const std::size_t in_features = c.inputs * as_size(c.ranks);
    LayerData data{
        .x = random.tensor(device, {c.sequences(), c.seq(), in_features}, c.dtype),
        .weights = {random.tensor(device, {c.out_features, in_features}, c.dtype)},
        .d_y = {random.tensor(device, {c.sequences(), c.seq(), c.out_features}, c.dtype)}};
    if (c.bias) data.weights.push_back(random.tensor(device, {c.out_features}, c.dtype));
    return data;
  }
  template <class Check>
  void for_cases(const Check& check) {
    for_splits([&](const test::SplitCase& split) {
      const Case c(split, random.pick({true, true, false}), random);
      check(c, data_of(c));
    });
  }
  /// Calls check(alone, case, data) for both dtypes, with and without a bias.
  template <class Check>
  void for_each_alone(const Check& check) {
    for (const DType dtype : ultra::test::kFloatDTypes) {
      for (const bool bias : {true, false}) {
        const Case c = on_one_rank(dtype, bias);
        SCOPED_TRACE(c.str());
        const LayerData data = data_of(c);
        Alone alone(c, data);
        check(alone, c, data);
      }
    }
  }
};

// One rank, whose region multiplies what leaves by 8, and what comes back by 16 -------------------

void expect_weight_gradients(Alone& alone, const Case& c, const LayerData& data,
                             const char* weight_hint = "Hint: d_W += d_y^T x.",
                             const char* bias_hint = "Hint: the sum of d_y's rows.") {
  const Part last = {0, c.sequences_of(c.micro_batches - 1)};
  const LayerData gathered = data.times(1, FakeRegion::kLeaveBackward);
  alone.expect_weight_gradient(0, pass_of(gathered),
                               {{pass_of(gathered.only(last)), test::kOverwritten},
                                {pass_of(data), kNotGathered},
                                {pass_of(data.times(1, FakeRegion::kEnterBackward)), kSummedAgain}},
                               weight_hint);
  if (!c.bias) return;
  alone.expect_weight_gradient(
      1, pass_of(data),
      {{pass_of(gathered), kBiasOfAllTokens}, {pass_of(data.only(last)), test::kOverwritten}},
      bias_hint);
}

TEST_F(RowParallelTest, PartsLeaveAndTheBiasCountsOnce) {
  for_each_alone([&](Alone& alone, const Case& /*c*/, const LayerData& data) {
    alone.forward_all();
    // The weight, or what is multiplied by it, carries the factor; the bias does not.
    const LayerData left = data.times(FakeRegion::kLeave, 1);
    alone.expect_outputs(pass_of(left),
                         {{pass_of(left, FakeRegion::kLeave), kBiasBeforeTheSum},
                          {pass_of(left, 0), kNoBias},
                          {pass_of(data), kNotSummed}},
                         "Hint: the sum of all parts x_r W_r^T, and then the bias.");
    alone.expect_two_calls(
        "leave", kNotSummed,
        "Hint: a forward pass lets its part leave, and waits for the sum; nothing else.");
  });
}

TEST_F(RowParallelTest, GradientsOfTwoMicroBatchesAreTheDenseLayers) {
  for_each_alone([&](Alone& alone, const Case& c, const LayerData& data) {
    alone.forward_all();
    alone.region->forget_events();
    alone.backward_all();
    alone.expect_input_gradients(
        pass_of(data.times(1, FakeRegion::kLeaveBackward)),
        {{pass_of(data), kNotGathered},
         {pass_of(data.times(1, FakeRegion::kEnterBackward)), kSummedAgain}},
        "");
    expect_weight_gradients(alone, c, data);
    alone.expect_two_calls(
        "leave_backward", kNotGathered,
        "Hint: a backward pass takes the gradient through leave_backward, once; the gradient of "
        "the input needs nothing from other ranks.");
  });
}

TEST_F(RowParallelTest, TheInputIsSavedAndNothingIsWrittenTo) {
  const Case c = on_one_rank(DType::kF32);
  const LayerData data = data_of(c);
  Alone alone(c, data);
  alone.forward(0);
  alone.expect_saved("Hint: the input itself, not a copy.",
                     "Hint: this rank's inputs, and nothing else.");
  alone.expect_unchanged(c, data, kReadOnly, kReadOnly);
}

TEST_F(RowParallelTest, GradientsCanBePutOff) {
  const Case c = on_one_rank(DType::kF64);
  const LayerData data = data_of(c);
  Alone alone(c, data);
  alone.run_deferred(kDeferred);
  expect_weight_gradients(alone, c, data, kDeferred, kDeferred);
}

// Ranks together ----------------------------------------------------------------------------------

TEST_F(RowParallelTest, RanksTogetherAreTheDenseLayer) {
  for_cases([&](const Case& c, const LayerData& data) {
    const LinearPass truth = pass_of(data);
    const auto check = [&](test::Rank<Case>& rank) {
      rank.expect_outputs(
          truth, {{pass_of(data, c.ranks), kBiasBeforeTheSum}, {pass_of(data, 0), kNoBias}},
          kNotSummed);
      rank.expect_input_gradients(truth, {}, "Hint: d_y of all tokens, times W_r.");
      rank.expect_weight_gradient(0, truth, {}, "Hint: from d_y of all tokens, and x.");
      const Part own_tokens = c.y_part(0, rank.number());
      if (c.bias) {
        rank.expect_weight_gradient(1, pass_of(data.only(own_tokens)), {{truth, kBiasOfAllTokens}},
                                    "Hint: the sum over this rank's tokens of d_y.");
      }
      return rank.outputs[0][0];
    };
    test::train_on_ranks(c, data, kShapes,
                         "Hint: without sequence parallelism all ranks have the same outputs, bit "
                         "for bit.",
                         check);
  });
}

TEST_F(RowParallelTest, SendsOneSumForwardAndNothingElse) {
  for_cases([&](const Case& c, const LayerData& data) {
    test::count_on_ranks(c, data, c.out_features, kShapes, [&](const test::Sent& sent) {
      EXPECT_EQ(sent.forward, sent.scatter + (c.splits_sequences() ? 0 : sent.gather))
          << "bytes sent forward\n"
          << kNotSummed;
      EXPECT_EQ(sent.backward, c.splits_sequences() ? sent.gather : 0) << "bytes sent backward\n"
                                                                       << kSummedAgain;
    });
  });
}

}  // namespace
}  // namespace ultra::tensor_parallel

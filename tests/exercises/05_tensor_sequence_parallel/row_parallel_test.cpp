// Contract of exercise 05.2: the dense layer's numbers from parts of its weight, a bias that counts
// once, and what the region is asked for.
#include "chapters/05_tensor_sequence_parallel/row_parallel.hpp"

#include "tests/exercises/05_tensor_sequence_parallel/split_layer.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::tensor_parallel {
namespace {

using test::FakeRegion;
using test::LayerData;
using test::LinearPass;
using test::Split;

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

/// As a layer of several outputs.
class RowLayer {
 public:
  RowLayer(std::vector<std::unique_ptr<nn::Parameter>> own, const std::shared_ptr<Region>& region)
      : layer_(std::move(own[0]), own.size() > 1 ? std::move(own[1]) : nullptr, region) {}

  std::vector<Tensor> forward(const Tensor& x, nn::Saved& saved) {
    return {layer_.forward(x, saved)};
  }
  Tensor backward(const std::vector<Tensor>& d_y, nn::Saved& saved) {
    return layer_.backward(d_y[0], saved);
  }
  std::vector<nn::Parameter*> parameters() { return layer_.parameters(); }

 private:
  RowParallelLinear layer_;
};
using Alone = test::Alone<RowLayer>;
using Rank = test::Rank<RowLayer>;

/// What the layer makes of whole arrays.
/// @param bias_factor  how often the bias counts.
LinearPass pass_of(const LayerData& data, double bias_factor = 1.0) {
  LinearPass pass = test::dense_pass(data.x, {data.weights[0]}, data.d_y);
  if (data.weights.size() == 1) return pass;
  const std::vector<double> bias = data.weights[1].to_vector();
  const std::vector<double> d_y = data.d_y[0].to_vector();
  const Tensor d_bias = Tensor::zeros(Device::cpu(), {bias.size()}, DType::kF64);
  for (std::size_t i = 0; i < d_y.size(); ++i) {
    pass.y[0].span<double>()[i] += bias_factor * bias[i % bias.size()];
    d_bias.span<double>()[i % bias.size()] += d_y[i];
  }
  pass.d_weights.push_back(d_bias);
  return pass;
}

class RowParallelTest : public test::SplitTest {
 protected:
  /// A linear map, of whose inputs each rank has the same number.
  Split with_map(Split c, bool bias = true) {
    const std::size_t inputs = random.between(1, 5) * test::as_size(c.ranks);
    const std::size_t outputs = random.between(1, 9);
    c.x_along = test::Along::kLast;
    c.y_along = test::Along::kTokens;
    c.weights = {{"weight", test::Along::kLast}};
    c.data = {
        .x = test::whole_tensor(random, device, {c.sequences(), c.seq, inputs}, c.dtype),
        .weights = {test::whole_tensor(random, device, {outputs, inputs}, c.dtype)},
        .d_y = {test::whole_tensor(random, device, {c.sequences(), c.seq, outputs}, c.dtype)}};
    if (!bias) return c;
    c.weights.push_back({"bias", test::Along::kWhole});
    c.data.weights.push_back(test::whole_tensor(random, device, {outputs}, c.dtype));
    return c;
  }
  /// Calls check(alone) for both dtypes, with and without a bias.
  template <class Check>
  void for_each_alone(const Check& check) {
    for (const DType dtype : ultra::test::kFloatDTypes) {
      for (const bool bias : {true, false}) {
        Alone alone(with_map(draw_alone(dtype), bias));
        SCOPED_TRACE(alone.split.str());
        check(alone);
      }
    }
  }
};

// One rank, whose region multiplies what leaves by 8, and what comes back by 16 -------------------

void expect_weight_gradients(Alone& alone, const char* weight_hint, const char* bias_hint) {
  const LayerData& data = alone.split.data;
  const LayerData gathered = data.times(1, FakeRegion::kLeaveBackward);
  alone.expect_weight_gradient(
      0, pass_of(gathered),
      {{pass_of(alone.split.last_micro_batch(gathered)), test::kOverwritten},
       {pass_of(data), kNotGathered},
       {pass_of(data.times(1, FakeRegion::kEnterBackward)), kSummedAgain}},
      weight_hint);
  if (data.weights.size() == 1) return;
  alone.expect_weight_gradient(1, pass_of(data),
                               {{pass_of(gathered), kBiasOfAllTokens},
                                {pass_of(alone.split.last_micro_batch(data)), test::kOverwritten}},
                               bias_hint);
}

TEST_F(RowParallelTest, OutputsAndGradientsOfTwoMicroBatchesAreTheDenseLayers) {
  for_each_alone([&](Alone& alone) {
    alone.forward_all();
    // The weight, or what is multiplied by it, carries the factor; the bias does not.
    const LayerData left = alone.split.data.times(FakeRegion::kLeave, 1);
    alone.expect_outputs(pass_of(left),
                         {{pass_of(left, FakeRegion::kLeave), kBiasBeforeTheSum},
                          {pass_of(left, 0), kNoBias},
                          {pass_of(alone.split.data), kNotSummed}},
                         "Hint: the sum of all parts x_r W_r^T, and then the bias.");
    alone.expect_two_calls(
        "leave", kNotSummed,
        "Hint: a forward pass lets its part leave, and waits for the sum; nothing else.");
    alone.region->forget_events();
    alone.backward_all();
    alone.expect_input_gradients(
        pass_of(alone.split.data.times(1, FakeRegion::kLeaveBackward)),
        {{pass_of(alone.split.data), kNotGathered},
         {pass_of(alone.split.data.times(1, FakeRegion::kEnterBackward)), kSummedAgain}},
        "");
    expect_weight_gradients(alone, "Hint: d_W += d_y^T x.", "Hint: the sum of d_y's rows.");
    alone.expect_two_calls("leave_backward", kNotGathered,
                           "Hint: a backward pass takes the gradient through leave_backward, once; "
                           "the gradient of the input needs nothing from other ranks.");
  });
}

TEST_F(RowParallelTest, TheInputIsSavedAndNothingIsWrittenTo) {
  Alone(with_map(draw_alone(DType::kF32)))
      .expect_saved("Hint: the input itself, not a copy.",
                    "Hint: this rank's inputs, and nothing else.",
                    "Hint: what the layer is given is read only: the residual stream goes on with "
                    "the same d_y, and the backward pass needs the input.");
}

TEST_F(RowParallelTest, GradientsCanBePutOff) {
  Alone alone(with_map(draw_alone(DType::kF64)));
  alone.run_deferred();
  expect_weight_gradients(alone, test::kDeferred, test::kDeferred);
}

// Ranks together ----------------------------------------------------------------------------------

TEST_F(RowParallelTest, RanksTogetherAreTheDenseLayer) {
  for_splits([&](const Split& sizes) {
    const Split c = with_map(sizes, random.pick({true, true, false}));
    const LinearPass truth = pass_of(c.data);
    const auto check = [&](Rank& rank) {
      rank.expect_outputs(
          truth, {{pass_of(c.data, c.ranks), kBiasBeforeTheSum}, {pass_of(c.data, 0), kNoBias}},
          kNotSummed);
      rank.expect_input_gradients(truth, {}, "Hint: d_y of all tokens, times W_r.");
      rank.expect_weight_gradient(0, truth, {}, "Hint: from d_y of all tokens, and x.");
      if (c.weights.size() > 1) {
        rank.expect_weight_gradient(1, pass_of(c.data.only(1, c.tokens_of(rank.number()))),
                                    {{truth, kBiasOfAllTokens}},
                                    "Hint: the sum over this rank's tokens of d_y.");
      }
    };
    test::train_on_ranks<RowLayer>(
        c,
        "Hint: outside the region a rank has local_seq tokens of each sequence, inside it all of "
        "them. x and the gradient that backward() returns are inside; y behind leave() and d_y are "
        "outside. leave_backward takes d_y inside.",
        check);
  });
}

}  // namespace
}  // namespace ultra::tensor_parallel

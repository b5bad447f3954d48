// Contract of exercise 05.1: the dense layer's numbers from parts of its weights; what the region
// is asked for, and what is computed before its answer is waited for.
#include "chapters/05_tensor_sequence_parallel/column_parallel.hpp"

#include "tests/exercises/05_tensor_sequence_parallel/split_layer.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::tensor_parallel {
namespace {

using test::FakeRegion;
using test::LayerData;
using test::LinearPass;
using test::Split;
using Alone = test::Alone<ColumnParallelProjections>;
using Rank = test::Rank<ColumnParallelProjections>;

constexpr const char* kNotSummed =
    "Hint: this is only the part of the gradient that this rank's columns give: enter_backward "
    "adds the parts of all ranks up.";
constexpr const char* kOwnTokens =
    "Hint: d_y has the tokens of all ranks, so a weight's gradient needs all tokens of the input: "
    "it enters the region again in the backward pass.";
constexpr const char* kSavedAsItCame =
    "Hint: \"input\" is kept as it came, this rank's tokens. What has entered is as large as all "
    "ranks' tokens together: it enters again in the backward pass instead of being kept.";
constexpr const char* kOnce =
    "Hint: the maps share their input: it enters once for all of them, and their parts of its "
    "gradient are added up on this rank before they go through enter_backward together.";
constexpr const char* kGradientsMeanwhile =
    "Hint: the gradient of the input is waited for too early: begin with enter_backward, make the "
    "weights' gradients, and wait then.";

LinearPass pass_of(const LayerData& data) {
  return test::dense_pass(data.x, data.weights, data.d_y);
}

class ColumnParallelTest : public test::SplitTest {
 protected:
  /// Maps of one input, of whose columns each rank has the same number; the last columns of the
  /// last map belong to no weight.
  Split with_maps(Split c, std::size_t maps) {
    const std::size_t in_features = random.between(1, 9);
    c.x_along = test::Along::kTokens;
    c.y_along = test::Along::kLast;
    c.data.x = test::whole_tensor(random, device, {c.sequences(), c.seq, in_features}, c.dtype);
    for (std::size_t map = 0; map < maps; ++map) {
      const std::size_t columns = random.between(1, 5) * test::as_size(c.ranks);
      c.weights.push_back({fmt::format("map {}", map), test::Along::kFirst});
      c.data.weights.push_back(test::whole_tensor(random, device, {columns, in_features}, c.dtype));
      c.data.d_y.push_back(
          test::whole_tensor(random, device, {c.sequences(), c.seq, columns}, c.dtype));
    }
    const std::size_t columns = c.data.weights.back().size(0);
    const Range padding{random.between(1, columns), columns};
    c.data.weights.back().slice(0, padding).fill(0.0);
    c.data.d_y.back().slice(-1, padding).fill(0.0);
    return c;
  }
  Split three_maps(DType dtype) { return with_maps(draw_alone(dtype), 3); }
};

// One rank, whose region multiplies what enters by 2, and what enters backward by 4 ---------------

void expect_weight_gradients(Alone& alone, const char* hint) {
  const LayerData entered = alone.split.data.times(FakeRegion::kEnter, 1);
  const LinearPass last = pass_of(alone.split.last_micro_batch(entered));
  for (std::size_t map = 0; map < alone.split.weights.size(); ++map) {
    alone.expect_weight_gradient(
        map, pass_of(entered),
        {{pass_of(alone.split.data), kOwnTokens}, {last, test::kOverwritten}}, hint);
  }
}

TEST_F(ColumnParallelTest, OutputsAndGradientsOfTwoMicroBatchesAreTheDenseLayers) {
  for (const DType dtype : ultra::test::kFloatDTypes) {
    const Split c = three_maps(dtype);
    SCOPED_TRACE(c.str());
    Alone alone(c);
    alone.forward_all();
    alone.expect_outputs(pass_of(c.data.times(FakeRegion::kEnter, 1)),
                         {{pass_of(c.data),
                           "Hint: these are the outputs of this rank's tokens alone: the input "
                           "enters the region first."}},
                         "Hint: y_i = x W_i^T.");
    alone.expect_two_calls(
        "enter", kOnce,
        "Hint: a forward pass lets its input enter, and waits for it; nothing else.");
    alone.backward_all();
    test::Suspects wrong = {{pass_of(c.data), kNotSummed}};
    for (const double factor : {1.0, FakeRegion::kEnterBackward}) {
      for (std::size_t map = 0; map < c.weights.size(); ++map) {
        LayerData one = c.data.times(1, 0);
        one.d_y[map] = test::scaled(c.data.d_y[map], factor);
        wrong.push_back(
            {pass_of(one),
             "Hint: only one map's part of the gradient is there: the product of the last map "
             "overwrites what stands in fresh memory, those of the others are added to it."});
      }
    }
    alone.expect_input_gradients(
        pass_of(c.data.times(1, FakeRegion::kEnterBackward)), wrong,
        "Hint: the sum over the maps of d_y_i W_i, through enter_backward.");
    expect_weight_gradients(alone, "Hint: d_W_i += d_y_i^T x.");
  }
}

TEST_F(ColumnParallelTest, TheInputIsSavedAsItCameAndNothingIsWrittenTo) {
  Alone(three_maps(DType::kF32))
      .expect_saved(kSavedAsItCame, kSavedAsItCame,
                    "Hint: the input belongs to the layer before, the gradients of the outputs to "
                    "the one behind: both are read only.");
}

TEST_F(ColumnParallelTest, WhatTravelsTravelsWhileTheRankComputes) {
  Alone alone(three_maps(DType::kF64));
  alone.forward(0);
  FakeRegion& region = *alone.region;
  region.forget_events();
  // Once the input is waited for, products with the weights come too late: they give NaN.
  region.on_arrival = [&](const std::string& function) {
    for (nn::Parameter* parameter : alone.parameters()) {
      const Tensor late = Tensor::empty(alone.device, parameter->shape(), DType::kF64);
      late.fill(std::numeric_limits<double>::quiet_NaN());
      if (function == "enter") parameter->set_value(late);
    }
  };
  std::vector<nn::HookHandle> hooks;
  for (nn::Parameter* parameter : alone.parameters()) {
    hooks.push_back(
        parameter->on_grad_ready([&](const nn::Parameter& made) { region.note(made.name()); }));
  }
  alone.backward(0);
  EXPECT_EQ(region.count("enter"), 1U) << "calls of enter, backward\n" << kOwnTokens;
  ASSERT_EQ(region.count("enter_backward"), 1U)
      << "calls of enter_backward\n"
      << (region.count("enter_backward") == 0 ? kNotSummed : kOnce);
  ASSERT_EQ(region.count("enter_backward arrived"), 1U) << "Hint: wait for it, once.";
  EXPECT_EQ(region.events().size(), 4U + 3U) << "Hint: nothing else is asked of the region.";
  const std::vector<double> d_x = alone.d_x[0].to_vector();
  EXPECT_TRUE(std::ranges::none_of(d_x, [](double x) { return std::isnan(x); }))
      << "products that ran after the input was waited for\n"
         "Hint: the input is waited for before the products that do not need it: let it enter, add "
         "up the gradient of the input, and wait then.";
  std::size_t before = region.time_of("enter_backward");
  for (const char* made : {"map 2", "map 1", "map 0"}) {
    ASSERT_EQ(region.count(made), 1U) << made << "\nHint: add_grad() once for each weight.";
    EXPECT_LT(region.time_of("enter_backward"), region.time_of(made)) << kGradientsMeanwhile;
    EXPECT_LT(region.time_of(made), region.time_of("enter_backward arrived"))
        << kGradientsMeanwhile;
    EXPECT_LE(before, region.time_of(made))
        << "Hint: the last map's gradient is made first: gradients come in the reverse of the "
           "forward order, all over the model, and buckets count on it.";
    before = std::max(before, region.time_of(made));
  }
}

TEST_F(ColumnParallelTest, WeightGradientsCanBePutOff) {
  Alone alone(three_maps(DType::kF64));
  alone.run_deferred();
  expect_weight_gradients(alone, test::kDeferred);
}

// Ranks together ----------------------------------------------------------------------------------

TEST_F(ColumnParallelTest, RanksTogetherAreTheDenseLayer) {
  for_splits([&](const Split& sizes) {
    const Split c = with_maps(sizes, random.between(1, 3));
    const LinearPass truth = pass_of(c.data);
    const auto check = [&](Rank& rank) {
      LayerData own = c.data;  // with this rank's columns only
      for (std::size_t map = 0; map < c.weights.size(); ++map) {
        const auto part = [&](const Tensor& whole, test::Along along) {
          return c.part_of(whole, along, rank.number()).contiguous();
        };
        own.weights[map] = part(c.data.weights[map], test::Along::kFirst);
        own.d_y[map] = part(c.data.d_y[map], test::Along::kLast);
        rank.expect_weight_gradient(
            map, truth, {}, "Hint: d_W_i += d_y_i^T x, of all tokens of all micro-batches.");
      }
      rank.expect_outputs(truth, {}, "Hint: this rank's columns, of the tokens of all ranks.");
      rank.expect_input_gradients(truth, {{pass_of(own), kNotSummed}},
                                  "Hint: the sum of all ranks' parts, of this rank's tokens.");
    };
    test::train_on_ranks<ColumnParallelProjections>(
        c,
        "Hint: outside the region a rank has local_seq tokens of each sequence, inside it all of "
        "them. x and what backward() returns are outside; what has entered, y and d_y are inside.",
        check);
  });
}

}  // namespace
}  // namespace ultra::tensor_parallel

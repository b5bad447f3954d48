// Contract of exercise 05.1: the dense layer's numbers from parts of its weights; what the region
// is asked for, and what is computed before its answer is waited for.
#include "chapters/05_tensor_sequence_parallel/column_parallel.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
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
using test::part_of;

constexpr const char* kNotEntered =
    "Hint: these are the outputs of this rank's tokens alone: the input enters the region first.";
constexpr const char* kOneMap =
    "Hint: only one map's part of the gradient is there: the product of the last map overwrites "
    "what stands in fresh memory, those of the others are added to it.";
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
constexpr const char* kBothBackward =
    "Hint: backward, the input enters again, and its gradient goes through enter_backward.";
constexpr const char* kGradientsMeanwhile =
    "Hint: the gradient of the input is waited for too early: begin with enter_backward, make the "
    "weights' gradients, and wait then.";
constexpr const char* kProductsMeanwhile =
    "Hint: the input is waited for before the products that do not need it: let it enter, add up "
    "the gradient of the input, and wait then.";
constexpr const char* kLastMapFirst =
    "Hint: the last map's gradient is made first: gradients come in the reverse of the forward "
    "order, all over the model, and buckets count on it.";
constexpr const char* kShapes =
    "Hint: outside the region a rank has local_seq tokens of each sequence, inside it all of them. "
    "x and what backward() returns are outside; what has entered, y and d_y are inside.";
constexpr const char* kDeferred =
    "Hint: a weight's gradient is written by the work that add_grad() is given, which may run much "
    "later: it holds the tensors that it reads.";

/// Linear maps of one input, of which each rank has the same number of columns.
struct Case : test::SplitCase {
  using Layer = ColumnParallelProjections;

  std::size_t in_features;
  std::vector<std::size_t> columns;  ///< by map: of each rank
  std::size_t padding;               ///< columns of the last map that belong to no weight

  Case(const test::SplitCase& split, std::size_t maps, ultra::test::Random& random)
      : SplitCase(split), in_features(random.between(1, 9)) {
    for (std::size_t map = 0; map < maps; ++map) columns.push_back(random.between(1, 5));
    padding = random.between(0, columns.back() * as_size(ranks) - 1);
  }

  [[nodiscard]] Part x_part(int rank) const { return {1, tokens_of(rank)}; }
  [[nodiscard]] Part y_part(std::size_t map, int rank) const { return {-1, columns_of(map, rank)}; }
  [[nodiscard]] Part weight_part(std::size_t map, int rank) const {
    return {0, columns_of(map, rank)};
  }
  [[nodiscard]] static std::string name_of(std::size_t map) { return fmt::format("map {}", map); }
  [[nodiscard]] Range columns_of(std::size_t map, int rank) const {
    return {as_size(rank) * columns[map], (as_size(rank) + 1) * columns[map]};
  }
  /// Length of the sums that gradients and outputs are.
  [[nodiscard]] double roundings() const {
    std::size_t all = in_features + sequences() * seq() + as_size(ranks) + 8;
    for (const std::size_t count : columns) all += count * as_size(ranks);
    return static_cast<double>(all);
  }
  [[nodiscard]] std::string str() const {
    return fmt::format("{}, {} inputs, columns of each rank {}, of which {} pad the last map",
                       SplitCase::str(), in_features, fmt::join(columns, " "), padding);
  }
};
using Alone = test::Alone<Case>;

LinearPass pass_of(const LayerData& data) {
  return test::dense_pass(data.x, data.weights, data.d_y);
}

class ColumnParallelTest : public test::SplitTest {
 protected:
  /// Three maps on one rank.
  Case three_maps(DType dtype) { return {draw_alone(dtype), 3, random}; }
  LayerData data_of(const Case& c) {
    LayerData data{.x = random.tensor(device, {c.sequences(), c.seq(), c.in_features}, c.dtype),
                   .weights = {},
                   .d_y = {}};
    for (const std::size_t columns : c.columns) {
      const std::size_t all = columns * as_size(c.ranks);
      data.weights.push_back(random.tensor(device, {all, c.in_features}, c.dtype));
      data.d_y.push_back(random.tensor(device, {c.sequences(), c.seq(), all}, c.dtype));
    }
    const std::size_t end = data.weights.back().size(0);
    data.weights.back().slice(0, {end - c.padding, end}).fill(0.0);
    data.d_y.back().slice(-1, {end - c.padding, end}).fill(0.0);
    return data;
  }
  template <class Check>
  void for_cases(const Check& check) {
    for_splits([&](const test::SplitCase& split) {
      const Case c(split, random.between(1, 3), random);
      check(c, data_of(c));
    });
  }
};

// One rank, whose region multiplies what enters by 2, and what enters backward by 4 ---------------

void expect_weight_gradients(Alone& alone, const Case& c, const LayerData& data,
                             const char* hint = "Hint: d_W_i += d_y_i^T x.") {
  const LayerData entered = data.times(FakeRegion::kEnter, 1);
  const LinearPass last = pass_of(entered.only({0, c.sequences_of(c.micro_batches - 1)}));
  for (std::size_t map = 0; map < c.columns.size(); ++map) {
    alone.expect_weight_gradient(map, pass_of(entered),
                                 {{pass_of(data), kOwnTokens}, {last, test::kOverwritten}}, hint);
  }
}

TEST_F(ColumnParallelTest, OutputsAreThoseOfWhatHasEntered) {
  for (const DType dtype : ultra::test::kFloatDTypes) {
    const Case c = three_maps(dtype);
    SCOPED_TRACE(c.str());
    const LayerData data = data_of(c);
    Alone alone(c, data);
    alone.forward_all();
    alone.expect_outputs(pass_of(data.times(FakeRegion::kEnter, 1)), {{pass_of(data), kNotEntered}},
                         "Hint: y_i = x W_i^T.");
    alone.expect_two_calls(
        "enter", kOnce,
        "Hint: a forward pass lets its input enter, and waits for it; nothing else.");
  }
}

TEST_F(ColumnParallelTest, TheInputIsSavedAsItCame) {
  const Case c = three_maps(DType::kF32);
  Alone alone(c, data_of(c));
  alone.forward(0);
  alone.expect_saved(kSavedAsItCame, kSavedAsItCame);
}

TEST_F(ColumnParallelTest, GradientsOfTwoMicroBatchesAreTheDenseLayers) {
  for (const DType dtype : ultra::test::kFloatDTypes) {
    const Case c = three_maps(dtype);
    SCOPED_TRACE(c.str());
    const LayerData data = data_of(c);
    Alone alone(c, data);
    alone.forward_all();
    alone.backward_all();
    test::Suspects wrong = {{pass_of(data), kNotSummed}};
    for (const double factor : {1.0, FakeRegion::kEnterBackward}) {
      for (std::size_t map = 0; map < c.columns.size(); ++map) {
        LayerData one = data.times(1, 0);
        one.d_y[map] = test::scaled(data.d_y[map], factor);
        wrong.push_back({pass_of(one), kOneMap});
      }
    }
    alone.expect_input_gradients(pass_of(data.times(1, FakeRegion::kEnterBackward)), wrong,
                                 "Hint: the sum over the maps of d_y_i W_i, through "
                                 "enter_backward.");
    expect_weight_gradients(alone, c, data);
  }
}

TEST_F(ColumnParallelTest, NothingThatIsGivenIsWrittenTo) {
  const Case c = three_maps(DType::kF32);
  const LayerData data = data_of(c);
  Alone alone(c, data);
  alone.forward(0);
  alone.backward(0);
  alone.expect_unchanged(c, data,
                         "Hint: the input belongs to the layer before: it is not written to.",
                         "Hint: the gradients of the outputs are read only.");
}

TEST_F(ColumnParallelTest, TheInputTravelsWhileItsGradientIsComputed) {
  const Case c = three_maps(DType::kF64);
  Alone alone(c, data_of(c));
  alone.forward(0);
  alone.region->forget_events();
  // Once the input is waited for, products with the weights come too late: they give NaN.
  alone.region->on_arrival = [&](const std::string& function) {
    if (function != "enter") return;
    for (nn::Parameter* parameter : alone.parameters()) {
      const Tensor late = Tensor::empty(alone.device, parameter->shape(), c.dtype);
      late.fill(std::numeric_limits<double>::quiet_NaN());
      parameter->set_value(late);
    }
  };
  alone.backward(0);
  EXPECT_EQ(alone.region->count("enter"), 1U) << "calls of enter, backward\n" << kOwnTokens;
  EXPECT_EQ(alone.region->count("enter_backward"), 1U) << "calls of enter_backward\n" << kOnce;
  bool late = false;
  for (const double x : alone.d_x[0].to_vector()) late = late || std::isnan(x);
  EXPECT_FALSE(late) << "products that ran after the input was waited for\n" << kProductsMeanwhile;
}

TEST_F(ColumnParallelTest, TheWeightsGradientsAreMadeWhileThatOfTheInputTravels) {
  const Case c = three_maps(DType::kF64);
  Alone alone(c, data_of(c));
  alone.forward(0);
  alone.region->forget_events();
  for (nn::Parameter* parameter : alone.parameters()) {
    parameter->on_grad_ready(
        [&](const nn::Parameter& made) { alone.region->note("gradient of " + made.name()); });
  }
  alone.backward(0);
  const FakeRegion& region = *alone.region;
  ASSERT_EQ(region.count("enter_backward"), 1U) << "calls of enter_backward\n" << kNotSummed;
  ASSERT_EQ(region.count("enter_backward arrived"), 1U) << "Hint: wait for it, once.";
  for (std::size_t map = 0; map < 3; ++map) {
    const std::string made = fmt::format("gradient of map {}", map);
    ASSERT_EQ(region.count(made), 1U) << made << "\nHint: add_grad() once for each weight.";
    EXPECT_LT(region.time_of("enter_backward"), region.time_of(made)) << kGradientsMeanwhile;
    EXPECT_LT(region.time_of(made), region.time_of("enter_backward arrived"))
        << kGradientsMeanwhile;
  }
  EXPECT_LT(region.time_of("gradient of map 2"), region.time_of("gradient of map 1"))
      << kLastMapFirst;
  EXPECT_LT(region.time_of("gradient of map 1"), region.time_of("gradient of map 0"))
      << kLastMapFirst;
}

TEST_F(ColumnParallelTest, WeightGradientsCanBePutOff) {
  const Case c = three_maps(DType::kF64);
  const LayerData data = data_of(c);
  Alone alone(c, data);
  alone.run_deferred(kDeferred);
  expect_weight_gradients(alone, c, data, kDeferred);
}

// Ranks together ----------------------------------------------------------------------------------

TEST_F(ColumnParallelTest, RanksTogetherAreTheDenseLayer) {
  for_cases([&](const Case& c, const LayerData& data) {
    const LinearPass truth = pass_of(data);
    const auto check = [&](test::Rank<Case>& rank) {
      LayerData own = data;  // with this rank's columns only
      for (std::size_t map = 0; map < c.columns.size(); ++map) {
        own.weights[map] =
            part_of(data.weights[map], c.weight_part(map, rank.number())).contiguous();
        own.d_y[map] = part_of(data.d_y[map], c.y_part(map, rank.number())).contiguous();
        rank.expect_weight_gradient(
            map, truth, {}, "Hint: d_W_i += d_y_i^T x, of all tokens of all micro-batches.");
      }
      rank.expect_outputs(truth, {}, "Hint: this rank's columns, of the tokens of all ranks.");
      rank.expect_input_gradients(truth, {{pass_of(own), kNotSummed}},
                                  "Hint: the sum of all ranks' parts, of this rank's tokens.");
      return rank.d_x[0];
    };
    test::train_on_ranks(c, data, kShapes,
                         "Hint: without sequence parallelism all ranks have the same input, and "
                         "its gradient is the same on all of them, bit for bit.",
                         check);
  });
}

TEST_F(ColumnParallelTest, SendsWhatOneInputTakes) {
  for_cases([&](const Case& c, const LayerData& data) {
    test::count_on_ranks(c, data, c.in_features, kShapes, [&](const test::Sent& sent) {
      const std::size_t forward = c.splits_sequences() ? sent.gather : 0;
      EXPECT_EQ(sent.forward, forward) << "bytes sent forward\n"
                                       << (sent.forward > forward ? kOnce : kNotEntered);
      const std::size_t backward = sent.gather + sent.scatter;
      EXPECT_EQ(sent.backward, backward) << "bytes sent backward\n"
                                         << (sent.backward > backward ? kOnce : kBothBackward);
    });
  });
}

}  // namespace
}  // namespace ultra::tensor_parallel

// Contract of exercise 05.1: the dense layer's numbers from parts of its weights; what the region is
// asked for, and what is computed before its answer is waited for.
#include "chapters/05_tensor_sequence_parallel/column_parallel.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <memory>
#include <string>
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
using test::LinearPass;

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
constexpr const char* kOverwritten =
    "Hint: only the last micro-batch is there: the work that add_grad() runs is told whether to "
    "overwrite the gradient or to add to it.";
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
  std::size_t in_features;
  std::vector<std::size_t> columns;  ///< by map: of each rank
  std::size_t padding;               ///< columns of the last map that belong to no weight

  Case(const test::SplitCase& split, std::size_t maps, ultra::test::Random& random)
      : SplitCase(split), in_features(random.between(1, 9)) {
    for (std::size_t map = 0; map < maps; ++map) columns.push_back(random.between(1, 5));
    padding = random.between(0, columns.back() * as_size(ranks) - 1);
  }

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

/// What the layer is given, on one rank with everything.
struct Data {
  Tensor x;                     ///< of all micro-batches
  std::vector<Tensor> weights;  ///< by map
  std::vector<Tensor> d_y;      ///< by map

  Data(const Case& c, const Device& device, ultra::test::Random& random)
      : x(random.tensor(device, {c.sequences(), c.seq(), c.in_features}, c.dtype)) {
    for (const std::size_t columns : c.columns) {
      const std::size_t all = columns * as_size(c.ranks);
      weights.push_back(random.tensor(device, {all, c.in_features}, c.dtype));
      d_y.push_back(random.tensor(device, {x.size(0), c.seq(), all}, c.dtype));
    }
    const std::size_t end = weights.back().size(0);
    weights.back().slice(0, {end - c.padding, end}).fill(0.0);
    d_y.back().slice(-1, {end - c.padding, end}).fill(0.0);
  }
};

/// One rank's layer, with its columns of the weights.
class Rank {
 public:
  Rank(const Case& c, const Data& data, int rank, std::shared_ptr<Region> region)
      : case_(c), data_(data), rank_(rank), layer_(weights(), std::move(region)) {}

  void forward(std::size_t micro_batch) {
    inputs.push_back(test::copy_to(
        device,
        data_.x.slice(0, case_.sequences_of(micro_batch)).slice(1, case_.tokens_of(rank_))));
    saved.emplace_back();
    outputs.push_back(layer_.forward(inputs.back(), saved.back()));
  }
  void backward(std::size_t micro_batch) {
    std::vector<Tensor> d_y;
    for (std::size_t map = 0; map < case_.columns.size(); ++map) {
      d_y.push_back(test::copy_to(device, data_.d_y[map]
                                              .slice(0, case_.sequences_of(micro_batch))
                                              .slice(-1, case_.columns_of(map, rank_))));
    }
    d_x.push_back(layer_.backward(d_y, saved[micro_batch]));
    d_outputs.push_back(d_y);
  }

  [[nodiscard]] Tensor gradient(std::size_t map) { return layer_.parameters()[map]->grad(); }
  [[nodiscard]] std::vector<nn::Parameter*> parameters() { return layer_.parameters(); }
  [[nodiscard]] int rank() const { return rank_; }

  Device device = Device::cpu();
  std::vector<nn::Saved> saved;  // by micro-batch, as all of these
  std::vector<Tensor> inputs;
  std::vector<std::vector<Tensor>> outputs;
  std::vector<std::vector<Tensor>> d_outputs;
  std::vector<Tensor> d_x;

 private:
  [[nodiscard]] std::vector<std::unique_ptr<nn::Parameter>> weights() const {
    std::vector<std::unique_ptr<nn::Parameter>> all;
    for (std::size_t map = 0; map < case_.columns.size(); ++map) {
      all.push_back(
          test::make_parameter(device, fmt::format("map {}", map),
                               data_.weights[map].slice(0, case_.columns_of(map, rank_))));
    }
    return all;
  }

  Case case_;
  Data data_;
  int rank_;
  ColumnParallelProjections layer_;
};

class ColumnParallelTest : public test::SplitTest {
 protected:
  /// Three maps on one rank.
  Case three_maps(DType dtype) { return {draw_alone(dtype), 3, random}; }
  template <class Check>
  void for_cases(const Check& check) {
    for_splits(
        [&](const test::SplitCase& split) { check(Case(split, random.between(1, 3), random)); });
  }
};

// One rank, whose region tells what it was asked for ----------------------------------------------

/// A rank beside a region that multiplies what enters by 2, and what enters backward by 4.
class Alone {
 public:
  Alone(const Case& c, const Data& data)
      : region(std::make_shared<FakeRegion>()),
        rank(c, data, 0, region),
        case_(c),
        data_(data),
        truth_(test::dense_pass(test::scaled(data.x, FakeRegion::kEnter), data.weights, data.d_y)) {
    for (nn::Parameter* parameter : rank.parameters()) {
      parameter->on_grad_ready(
          [this](const nn::Parameter& made) { region->note("gradient of " + made.name()); });
    }
  }

  void expect_outputs() {
    const LinearPass own = test::dense_pass(data_.x, data_.weights, data_.d_y);
    for (std::size_t m = 0; m < rank.outputs.size(); ++m) {
      ASSERT_EQ(rank.outputs[m].size(), case_.columns.size()) << "Hint: one output per map.";
      for (std::size_t map = 0; map < case_.columns.size(); ++map) {
        const auto is = [&](const LinearPass& pass) {
          return test::near(rank.outputs[m][map], pass.y[map].slice(0, case_.sequences_of(m)),
                            case_.roundings());
        };
        EXPECT_TRUE(is(truth_)) << "output of map " << map << " of micro-batch " << m << "\n"
                                << (is(own) ? kNotEntered : "Hint: y_i = x W_i^T.");
      }
    }
  }

  void expect_input_gradients() {
    const auto with = [&](const std::vector<Tensor>& d_y, double factor) {
      std::vector<Tensor> all;
      for (const Tensor& d : d_y) all.push_back(test::scaled(d, factor));
      return test::dense_pass(data_.x, data_.weights, all).d_x;
    };
    for (std::size_t m = 0; m < rank.d_x.size(); ++m) {
      const auto is = [&](const test::Known& known) {
        return test::near(rank.d_x[m], known.slice(0, case_.sequences_of(m)), case_.roundings());
      };
      std::string hint = "Hint: the sum over the maps of d_y_i W_i, through enter_backward.";
      for (const double factor : {1.0, FakeRegion::kEnterBackward}) {
        for (std::size_t map = 0; map < case_.columns.size(); ++map) {
          std::vector<Tensor> only(data_.d_y.size());
          for (std::size_t i = 0; i < only.size(); ++i) {
            only[i] = test::scaled(data_.d_y[i], i == map ? 1.0 : 0.0);
          }
          if (is(with(only, factor))) hint = kOneMap;
        }
      }
      if (is(with(data_.d_y, 1.0))) hint = kNotSummed;
      const auto same = is(with(data_.d_y, FakeRegion::kEnterBackward));
      EXPECT_TRUE(same) << "gradient of the input of micro-batch " << m << "\n" << hint;
      if (!same) return;
    }
  }

  void expect_weight_gradients(const std::string& default_hint = "Hint: d_W_i += d_y_i^T x.") {
    const Range last = case_.sequences_of(case_.micro_batches - 1);
    std::vector<Tensor> d_last;
    for (const Tensor& d : data_.d_y) d_last.push_back(d.slice(0, last).contiguous());
    const Tensor entered = test::scaled(data_.x, FakeRegion::kEnter);
    const LinearPass own = test::dense_pass(data_.x, data_.weights, data_.d_y);
    const LinearPass of_last =
        test::dense_pass(entered.slice(0, last).contiguous(), data_.weights, d_last);
    for (std::size_t map = 0; map < case_.columns.size(); ++map) {
      const auto is = [&](const LinearPass& pass) {
        return test::near(rank.gradient(map), pass.d_weights[map], case_.roundings());
      };
      EXPECT_TRUE(is(truth_)) << "gradient of the weight of map " << map << "\n"
                              << (is(own)       ? kOwnTokens
                                  : is(of_last) ? kOverwritten
                                                : default_hint);
    }
  }

  std::shared_ptr<FakeRegion> region;
  Rank rank;

 private:
  Case case_;
  Data data_;
  LinearPass truth_;
};

TEST_F(ColumnParallelTest, OutputsAreThoseOfWhatHasEntered) {
  for (const DType dtype : ultra::test::kFloatDTypes) {
    const Case c = three_maps(dtype);
    SCOPED_TRACE(c.str());
    Alone alone(c, Data(c, device, random));
    for (std::size_t m = 0; m < 2; ++m) alone.rank.forward(m);
    alone.expect_outputs();
    EXPECT_EQ(alone.region->count("enter"), 2U) << "calls of enter in two passes\n" << kOnce;
    EXPECT_EQ(alone.region->events().size(), 4U)
        << "Hint: a forward pass lets its input enter, and waits for it; nothing else.";
  }
}

TEST_F(ColumnParallelTest, TheInputIsSavedAsItCame) {
  const Case c = three_maps(DType::kF32);
  Alone alone(c, Data(c, device, random));
  alone.rank.forward(0);
  const nn::Saved& saved = alone.rank.saved[0];
  const Tensor& x = alone.rank.inputs[0];
  ASSERT_TRUE(saved.has("input")) << "Hint: saved.put(\"input\", x).";
  EXPECT_TRUE(saved.get("input").shares_storage(x)) << kSavedAsItCame;
  EXPECT_EQ(saved.bytes(), x.nbytes()) << "bytes that are saved\n" << kSavedAsItCame;
  alone.rank.backward(0);
  EXPECT_TRUE(saved.empty()) << "Hint: the backward pass takes what the forward pass saved.";
}

TEST_F(ColumnParallelTest, GradientsOfTwoMicroBatchesAreTheDenseLayers) {
  for (const DType dtype : ultra::test::kFloatDTypes) {
    const Case c = three_maps(dtype);
    SCOPED_TRACE(c.str());
    Alone alone(c, Data(c, device, random));
    for (std::size_t m = 0; m < 2; ++m) alone.rank.forward(m);
    for (std::size_t m = 0; m < 2; ++m) alone.rank.backward(m);
    alone.expect_input_gradients();
    alone.expect_weight_gradients();
  }
}

TEST_F(ColumnParallelTest, NothingThatIsGivenIsWrittenTo) {
  const Case c = three_maps(DType::kF32);
  const Data data(c, device, random);
  Alone alone(c, data);
  alone.rank.forward(0);
  alone.rank.backward(0);
  EXPECT_TRUE(
      test::unchanged(alone.rank.inputs[0], data.x.slice(0, c.sequences_of(0)).contiguous()))
      << "Hint: the input belongs to the layer before: it is not written to.";
  for (std::size_t map = 0; map < c.columns.size(); ++map) {
    EXPECT_TRUE(test::unchanged(alone.rank.d_outputs[0][map],
                                data.d_y[map].slice(0, c.sequences_of(0)).contiguous()))
        << "Hint: the gradients of the outputs are read only.";
  }
}

TEST_F(ColumnParallelTest, TheInputTravelsWhileItsGradientIsComputed) {
  const Case c = three_maps(DType::kF64);
  Alone alone(c, Data(c, device, random));
  alone.rank.forward(0);
  alone.region->forget_events();
  // Once the input is waited for, products with the weights come too late: they give NaN.
  alone.region->on_arrival = [&](const std::string& function) {
    if (function != "enter") return;
    for (nn::Parameter* parameter : alone.rank.parameters()) {
      const Tensor late = Tensor::empty(alone.rank.device, parameter->shape(), c.dtype);
      late.fill(std::numeric_limits<double>::quiet_NaN());
      parameter->set_value(late);
    }
  };
  alone.rank.backward(0);
  EXPECT_EQ(alone.region->count("enter"), 1U) << "calls of enter, backward\n" << kOwnTokens;
  EXPECT_EQ(alone.region->count("enter_backward"), 1U) << "calls of enter_backward\n" << kOnce;
  bool late = false;
  for (const double x : alone.rank.d_x[0].to_vector()) late = late || std::isnan(x);
  EXPECT_FALSE(late) << "products that ran after the input was waited for\n" << kProductsMeanwhile;
}

TEST_F(ColumnParallelTest, TheWeightsGradientsAreMadeWhileThatOfTheInputTravels) {
  const Case c = three_maps(DType::kF64);
  Alone alone(c, Data(c, device, random));
  alone.rank.forward(0);
  alone.region->forget_events();
  alone.rank.backward(0);
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
  Alone alone(c, Data(c, device, random));
  nn::DeferredGradients queue;
  for (nn::Parameter* parameter : alone.rank.parameters()) parameter->defer_grads_to(&queue);
  for (std::size_t m = 0; m < 2; ++m) {
    alone.rank.forward(m);
    alone.rank.backward(m);
  }
  EXPECT_FALSE(alone.rank.gradient(0).defined()) << kDeferred;
  alone.rank.d_outputs.clear();
  alone.rank.saved.clear();
  queue.run();
  alone.expect_weight_gradients(kDeferred);
}

// Ranks together ----------------------------------------------------------------------------------

/// What a rank has after all micro-batches, held against one rank with everything.
void expect_rank(const Case& c, const Data& data, const LinearPass& truth, Rank& rank) {
  const std::string who = fmt::format(" on rank {}", rank.rank());
  std::vector<Tensor> own_weights;
  std::vector<Tensor> own_d_y;
  for (std::size_t map = 0; map < c.columns.size(); ++map) {
    const Range columns = c.columns_of(map, rank.rank());
    own_weights.push_back(data.weights[map].slice(0, columns).contiguous());
    own_d_y.push_back(data.d_y[map].slice(-1, columns).contiguous());
  }
  const LinearPass own = test::dense_pass(data.x, own_weights, own_d_y);
  for (std::size_t m = 0; m < c.micro_batches; ++m) {
    const std::string of = fmt::format(" of micro-batch {}", m);
    const auto is = [&](const test::Known& d_x) {
      return test::near(rank.d_x[m],
                        d_x.slice(0, c.sequences_of(m)).slice(1, c.tokens_of(rank.rank())),
                        c.roundings());
    };
    EXPECT_TRUE(is(truth.d_x)) << "gradient of the input" << of << who << "\n"
                               << (is(own.d_x) ? kNotSummed
                                               : "Hint: the sum of all ranks' parts, of this "
                                                 "rank's tokens.");
    for (std::size_t map = 0; map < c.columns.size(); ++map) {
      EXPECT_TRUE(test::near(
          rank.outputs[m][map],
          truth.y[map].slice(0, c.sequences_of(m)).slice(-1, c.columns_of(map, rank.rank())),
          c.roundings()))
          << "output of map " << map << of << who << "\n"
          << "Hint: this rank's columns, of the tokens of all ranks.";
    }
  }
  for (std::size_t map = 0; map < c.columns.size(); ++map) {
    EXPECT_TRUE(test::near(rank.gradient(map),
                           truth.d_weights[map].slice(0, c.columns_of(map, rank.rank())),
                           c.roundings()))
        << "gradient of the weight of map " << map << who
        << "\nHint: d_W_i += d_y_i^T x, of all tokens of all micro-batches.";
  }
}

TEST_F(ColumnParallelTest, RanksTogetherAreTheDenseLayer) {
  for_cases([&](const Case& c) {
    const Data data(c, device, random);
    const LinearPass truth = test::dense_pass(data.x, data.weights, data.d_y);
    std::vector<Tensor> d_x(as_size(c.ranks));
    const auto train = [&](Communicator& tp) {
      Rank rank(c, data, tp.rank(), make_region(tp, c.sequence_parallel));
      for (std::size_t m = 0; m < c.micro_batches; ++m) rank.forward(m);
      for (std::size_t m = 0; m < c.micro_batches; ++m) rank.backward(m);
      tp.barrier();
      expect_rank(c, data, truth, rank);
      d_x[as_size(tp.rank())] = rank.d_x[0];
    };
    ultra::test::on_ranks(c.ranks, c.str(), train, {}, kShapes);
    if (HasFailure() || c.splits_sequences()) return;
    for (const Tensor& other : d_x) {
      EXPECT_TRUE(ultra::test::all_equal(other, d_x[0]))
          << "Hint: without sequence parallelism all ranks have the same input, and its gradient "
             "is the same on all of them, bit for bit.";
    }
  });
}

TEST_F(ColumnParallelTest, SendsWhatOneInputTakes) {
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
      const std::size_t n = c.batch * c.seq() * c.in_features;
      const std::size_t own = comm::Chunks::even({0, n}, c.ranks)[tp.rank()].size();
      const std::size_t others = as_size(c.ranks - 1);
      const std::size_t bytes = size_of(c.dtype);
      const std::size_t all_reduce = c.splits_sequences() ? 0 : n - own + others * own;
      const std::size_t gather = c.splits_sequences() ? others * own : 0;
      EXPECT_EQ(forward, gather * bytes) << "bytes sent forward\n"
                                         << (forward > gather * bytes ? kOnce : kNotEntered);
      const std::size_t expected = (c.splits_sequences() ? gather + n - own : all_reduce) * bytes;
      EXPECT_EQ(backward, expected) << "bytes sent backward\n"
                                    << (backward > expected ? kOnce : kBothBackward);
    };
    ultra::test::on_ranks(c.ranks, c.str(), count, {}, kShapes);
  });
}

}  // namespace
}  // namespace ultra::tensor_parallel

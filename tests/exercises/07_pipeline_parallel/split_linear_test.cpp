// Contract of exercise 07.4: a linear map's backward pass in two parts, of which the second waits.
#include "chapters/07_pipeline_parallel/split_linear.hpp"

#include "tests/support/toolbox.hpp"

namespace ultra::pipeline_parallel {
namespace {

using ultra::test::all_near;
using ultra::test::rounding_bound;

constexpr const char* kInput =
    "Hint: the gradient of the input: every map of it has a share. The shapes in split_linear.hpp "
    "say of what.";
constexpr const char* kWeight =
    "Hint: the gradient of a weight, [out, in]: of the input, and of the output of its own map.";
constexpr const char* kWaits =
    "Hint: nothing of the weight's gradient may be made before the queue runs: give the work to "
    "nn::Parameter::add_grad.";
constexpr const char* kHandles =
    "Hint: a tensor is a handle: what waits keeps the memory that is there, and lets go of it when "
    "it has run. A copy takes it once more.";
constexpr const char* kAccumulates =
    "Hint: the work is told whether it writes the gradient or adds to it: micro-batches add up.";
constexpr const char* kOwnTensors =
    "Hint: the work runs much later, when the next micro-batches have passed: it must keep its own "
    "d_y and x, not a reference to something that is gone, and those of its own map.";

class SplitBackward : public ultra::test::RandomTest {
 protected:
  struct Pass {
    Tensor x;
    std::vector<Tensor> d_y;
  };
  struct Gradients {
    std::vector<double> x;
    std::vector<std::vector<double>> weights;
  };

  /// @param out  of all maps alike; 0 draws one for each.
  std::vector<nn::Parameter*> draw_weights(std::size_t maps, DType dtype, std::size_t out = 0) {
    const std::size_t in = random.between(1, 6);
    std::vector<nn::Parameter*> weights;
    for (std::size_t i = 0; i < maps; ++i) {
      owned_.push_back(std::make_unique<nn::Parameter>(
          nn::ParameterSpec{.name = "w" + std::to_string(i),
                            .global_shape = {out > 0 ? out : random.between(1, 7), in},
                            .shard = {},
                            .initializer = {.standard_deviation = 1.0}},
          device, dtype, seed));
      weights.push_back(owned_.back().get());
    }
    return weights;
  }

  Pass draw_pass(const std::vector<nn::Parameter*>& weights, DType dtype) {
    const std::size_t batch = random.between(1, 3);
    const std::size_t seq = random.between(1, 6);
    Pass pass{.x = random.tensor(device, {batch, seq, weights.front()->shape()[1]}, dtype),
              .d_y = {}};
    for (const nn::Parameter* weight : weights) {
      pass.d_y.push_back(random.tensor(device, {batch, seq, weight->shape()[0]}, dtype));
    }
    return pass;
  }

  /// By the definition, element by element.
  static Gradients definition(const Pass& pass, const std::vector<nn::Parameter*>& weights) {
    const std::vector<double> x = pass.x.to_vector();
    const std::size_t in = pass.x.size(-1);
    Gradients sums{.x = std::vector<double>(x.size()), .weights = {}};
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const std::vector<double> w = weights[i]->value().to_vector();
      const std::vector<double> d_y = pass.d_y[i].to_vector();
      const std::size_t out = weights[i]->shape()[0];
      std::vector<double>& d_w = sums.weights.emplace_back(w.size());
      for (std::size_t row = 0; row < x.size() / in; ++row) {
        for (std::size_t o = 0; o < out; ++o) {
          for (std::size_t k = 0; k < in; ++k) {
            sums.x[row * in + k] += d_y[row * out + o] * w[o * in + k];
            d_w[o * in + k] += d_y[row * out + o] * x[row * in + k];
          }
        }
      }
    }
    return sums;
  }

  static void expect_near(const Tensor& found, const std::vector<double>& expected, DType dtype,
                          const std::string& hint) {
    ASSERT_TRUE(found.defined() && found.numel() == expected.size()) << hint;
    EXPECT_TRUE(all_near(found, expected, rounding_bound(dtype, 200, 30.0))) << hint;
  }

 private:
  std::vector<std::unique_ptr<nn::Parameter>> owned_;
};

TEST_F(SplitBackward, MakesBothGradientsAtOnceWithoutAQueue) {
  for (const DType dtype : ultra::test::kFloatDTypes) {
    for (const std::size_t maps : {1U, 2U, 3U}) {
      const std::vector<nn::Parameter*> weights = draw_weights(maps, dtype);
      const Pass pass = draw_pass(weights, dtype);
      const Tensor d_x = split_backward(pass.d_y, pass.x, weights);
      ASSERT_EQ(d_x.shape(), pass.x.shape()) << kInput;
      const Gradients expected = definition(pass, weights);
      expect_near(d_x, expected.x, dtype, kInput);
      for (std::size_t i = 0; i < maps; ++i) {
        expect_near(weights[i]->grad(), expected.weights[i], dtype, kWeight);
      }
    }
  }
}

// Two micro-batches wait at the same time, and what they were made of is gone by then.
TEST_F(SplitBackward, WeightGradientsWaitForTheirQueue) {
  const DType dtype = DType::kF64;
  const std::vector<nn::Parameter*> weights = draw_weights(2, dtype, random.between(1, 5));
  nn::DeferredGradients queues[2];
  std::vector<std::vector<double>> expected(2);
  for (nn::DeferredGradients& queue : queues) {
    Pass pass = draw_pass(weights, dtype);
    for (nn::Parameter* weight : weights) weight->defer_grads_to(&queue);
    const Tensor d_x = split_backward(pass.d_y, pass.x, weights);
    for (nn::Parameter* weight : weights) weight->defer_grads_to(nullptr);
    const Gradients own = definition(pass, weights);
    expect_near(d_x, own.x, dtype, kInput);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_FALSE(weights[i]->grad().defined()) << kWaits;
      expected[i].resize(own.weights[i].size(), 0.0);
      std::ranges::transform(expected[i], own.weights[i], expected[i].begin(), std::plus<>());
    }
    EXPECT_EQ(queue.size(), 2U) << kWaits;
    pass.d_y.assign(2, Tensor());
    d_x.fill(1e6);  // the next layer may do with it what it wants
  }
  for (nn::DeferredGradients& queue : queues) queue.run();
  for (std::size_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(weights[i]->grad().defined()) << kWaits;
    EXPECT_TRUE(all_near(weights[i]->grad(), expected[i], rounding_bound(dtype, 400, 60.0)))
        << kAccumulates << " " << kOwnTensors;
  }
}

TEST_F(SplitBackward, WhatWaitsTakesNoFurtherMemory) {
  const DType dtype = DType::kF32;
  const std::vector<nn::Parameter*> weights = draw_weights(2, dtype);
  const std::size_t before = device.memory().current().total();
  nn::DeferredGradients queue;
  for (nn::Parameter* weight : weights) weight->defer_grads_to(&queue);
  {
    const Pass pass = draw_pass(weights, dtype);
    const std::size_t drawn = device.memory().current().total();
    const Tensor d_x = split_backward(pass.d_y, pass.x, weights);
    EXPECT_EQ(device.memory().current().total(), drawn + d_x.nbytes()) << kHandles;
  }
  for (nn::Parameter* weight : weights) weight->defer_grads_to(nullptr);
  queue.run();
  std::size_t gradients = 0;
  for (const nn::Parameter* weight : weights) {
    ASSERT_TRUE(weight->grad().defined()) << kWaits;
    gradients += weight->grad().nbytes();
  }
  EXPECT_EQ(device.memory().current().total(), before + gradients) << kHandles;
}

}  // namespace
}  // namespace ultra::pipeline_parallel

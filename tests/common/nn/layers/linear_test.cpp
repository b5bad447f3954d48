#include "common/nn/layers/linear.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "common/base/errors.hpp"
#include "tests/common/nn/layer_fixture.hpp"
#include "tests/support/compare.hpp"

namespace ultra::nn {
namespace {

class LinearTest : public LayerTest {
 protected:
  [[nodiscard]] ParameterSpec weight(const char* name, std::size_t out, std::size_t in) const {
    return weight_spec(
        {.name = name, .in_features = in, .out_features = out, .standard_deviation = 0.3});
  }
};

TEST_F(LinearTest, TheWeightIsOutByIn) {
  const ParameterSpec spec = weight("w", 5, 3);
  EXPECT_EQ(spec.name, "w");
  EXPECT_EQ(spec.global_shape, (Shape{5, 3}));
  EXPECT_TRUE(spec.shard.empty());
  EXPECT_EQ(spec.initializer.standard_deviation, 0.3);
}

TEST_F(LinearTest, ForwardIsXTimesTheTransposedWeight) {
  const std::size_t in = random.between(1, 20);
  const std::size_t out = random.between(1, 20);
  DenseLinear linear(weight("w", out, in), device, DType::kF64, seed);
  const Tensor x = random.tensor(device, {2, 3, in}, DType::kF64);
  Saved saved;
  const Tensor y = linear.forward(x, saved);
  ASSERT_EQ(y.shape(), (Shape{2, 3, out}));
  const std::vector<double> xs = x.to_vector();
  const std::vector<double> ws = linear.parameters()[0]->value().to_vector();
  std::vector<double> expected;
  std::vector<double> tolerances;
  for (std::size_t i = 0; i < 6 * out; ++i) {
    double sum = 0.0;
    double size = 0.0;
    for (std::size_t k = 0; k < in; ++k) {
      const double term = xs[i / out * in + k] * ws[i % out * in + k];
      sum += term;
      size += std::abs(term);
    }
    expected.push_back(sum);
    tolerances.push_back(test::rounding_bound(DType::kF64, 2 * test::count_of(in), size));
  }
  EXPECT_TRUE(test::all_near(y, expected, tolerances));
  EXPECT_TRUE(saved.get("input").shares_storage(x));
}

TEST_F(LinearTest, GradientsMatchFiniteDifferences) {
  DenseLinear linear(weight("w", random.between(1, 7), 4), device, DType::kF64, seed);
  check_layer(linear, random.tensor(device, {2, random.between(1, 5), 4}, DType::kF64));
}

TEST_F(LinearTest, ProjectionsSumTheGradientsOfTheirSharedInput) {
  DenseProjections maps({weight("q", 3, 4), weight("k", 5, 4), weight("v", 1, 4)}, device,
                        DType::kF64, seed);
  const Tensor x = random.tensor(device, {2, 3, 4}, DType::kF64);
  Saved saved;
  const std::vector<Tensor> y = maps.forward(x, saved);
  ASSERT_EQ(y.size(), 3U);
  std::vector<Tensor> d_y;
  for (const Tensor& one : y) d_y.push_back(random.tensor(device, one.shape(), DType::kF64));
  const Tensor d_x = maps.backward(d_y, saved);
  EXPECT_TRUE(saved.empty());
  std::vector<test::Differentiated> at = {{"x", x, d_x}};
  for (Parameter* p : maps.parameters()) at.push_back({p->name(), p->value(), p->grad().clone()});
  const auto f = [&] {
    Saved discard(Saved::Mode::kDiscard);
    const std::vector<Tensor> outputs = maps.forward(x, discard);
    double sum = 0.0;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      sum += test::inner_product(d_y[i], outputs[i]);
    }
    return sum;
  };
  EXPECT_TRUE(test::gradients_match(random, f, at));
}

TEST_F(LinearTest, AShardIsALinearMapOfItsRows) {
  ParameterSpec half = weight("w", 6, 4);
  half.shard = {{2, 5}, {0, 4}};
  DenseLinear whole(weight("w", 6, 4), device, DType::kF64, seed);
  DenseLinear shard(half, device, DType::kF64, seed);
  EXPECT_TRUE(test::all_equal(shard.parameters()[0]->value(),
                              whole.parameters()[0]->value().slice(0, {2, 5})));
  Saved saved;
  EXPECT_EQ(shard.forward(random.tensor(device, {1, 2, 4}, DType::kF64), saved).shape(),
            (Shape{1, 2, 3}));
}

TEST_F(LinearTest, AnInputOfTheWrongWidthIsNamed) {
  DenseLinear linear(weight("w", 2, 4), device, DType::kF32, seed);
  Saved saved;
  const std::string message = test::message_of<ShapeError>([&] {
    static_cast<void>(linear.forward(Tensor::zeros(device, {1, 3, 5}, DType::kF32), saved));
  });
  EXPECT_THAT(message, ::testing::HasSubstr("[3, 5] x [4, 2]"));
}

TEST_F(LinearTest, BackwardNeedsOneGradientPerMap) {
  DenseProjections maps({weight("a", 3, 4), weight("b", 5, 4)}, device, DType::kF64, seed);
  Saved saved;
  const std::vector<Tensor> y = maps.forward(random.tensor(device, {1, 2, 4}, DType::kF64), saved);
  EXPECT_THROW(static_cast<void>(maps.backward(std::span(y).first(1), saved)), InternalError);
}

}  // namespace
}  // namespace ultra::nn

// Elementwise operations.
// Covers: common/ops/swiglu.hpp

#include "common/ops/elementwise.hpp"

#include "common/ops/swiglu.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/finite_difference.hpp"

namespace ultra::ops {
namespace {

class ElementwiseTest : public test::RandomTest {
 protected:
  [[nodiscard]] Shape shape() { return {random.between(0, 5), random.between(1, 70)}; }
};

TEST_F(ElementwiseTest, AddRoundsTheSumOnce) {
  for (const DType dtype : test::kFloatDTypes) {
    const Tensor a = random.tensor(device, shape(), dtype);
    const Tensor b = random.tensor(device, a.shape(), dtype);
    const std::vector<double> x = a.to_vector();
    const std::vector<double> y = b.to_vector();
    std::vector<double> expected;
    std::vector<double> tolerances;
    for (std::size_t i = 0; i < x.size(); ++i) {
      expected.push_back(x[i] + y[i]);
      tolerances.push_back(rounding_bound(dtype, 1, std::abs(x[i] + y[i])));
    }
    const Tensor sum = add(a, b);
    EXPECT_TRUE(all_near(sum, expected, tolerances));
    EXPECT_TRUE(test::all_equal(a, x));
    add_into(a, b);
    EXPECT_TRUE(test::all_equal(a, sum));
  }
}

TEST_F(ElementwiseTest, WriteOrAddDoesWhatItIsTold) {
  const Tensor a = random.tensor(device, {3, 5}, DType::kF64);
  const Tensor b = random.tensor(device, {3, 5}, DType::kF64);
  const Tensor sum = add(a, b);
  write_or_add(a, b, Write::kAccumulate);
  EXPECT_TRUE(test::all_equal(a, sum));
  a.fill(std::nan(""));
  write_or_add(a, b, Write::kOverwrite);
  EXPECT_TRUE(test::all_equal(a, b));
}

TEST_F(ElementwiseTest, ScaleMultipliesInPlace) {
  const Tensor a = random.tensor(device, shape(), DType::kF64);
  std::vector<double> expected = a.to_vector();
  const double factor = random.uniform(-2.0, 2.0);
  for (double& value : expected) value *= factor;
  scale_into(a, factor);
  EXPECT_TRUE(test::all_equal(a, expected));
}

TEST_F(ElementwiseTest, SumOfSquaresAccumulatesInDoublePrecision) {
  for (const DType dtype : test::kFloatDTypes) {
    const Tensor x = random.tensor(device, {random.between(0, 5000)}, dtype);
    long double expected = 0.0L;
    for (const double value : x.to_vector()) expected += static_cast<long double>(value) * value;
    EXPECT_NEAR(
        sum_of_squares(x), static_cast<double>(expected),
        rounding_bound(DType::kF64, count_of(x.numel() + 1), static_cast<double>(expected)));
    EXPECT_EQ(sum_of_squares(x), sum_of_squares(x.clone()));  // a fixed order: bitwise
  }
}

TEST_F(ElementwiseTest, SumOfSquaresIsWrittenOrAddedToANumberOfTheDevice) {
  const Tensor x = random.tensor(device, {random.between(1, 5000)}, DType::kF32);
  const Tensor sum = test::filled(device, {1}, DType::kF64, std::nan(""));
  sum_of_squares_into(sum, x, Write::kOverwrite);
  EXPECT_EQ(sum.to_vector().front(), sum_of_squares(x));
  sum_of_squares_into(sum, x, Write::kAccumulate);
  EXPECT_EQ(sum.to_vector().front(), sum_of_squares(x) + sum_of_squares(x));
  EXPECT_THROW(sum_of_squares_into(x, x, Write::kOverwrite), ShapeError);
}

TEST_F(ElementwiseTest, SumOfSquaresOfLargeSinglesDoesNotOverflow) {
  const Tensor x = test::filled(device, {3}, DType::kF32, 0x1.0p100);
  EXPECT_EQ(sum_of_squares(x), 3.0 * 0x1.0p200);
}

TEST_F(ElementwiseTest, NanGoesThrough) {
  const Tensor x = Tensor::zeros(device, {37}, DType::kF32);
  x.slice(0, {20, 21}).fill(std::nan(""));
  EXPECT_TRUE(std::isnan(sum_of_squares(x)));
}

TEST_F(ElementwiseTest, ShapesAndDTypesMustAgree) {
  const Tensor a = Tensor::zeros(device, {2, 3}, DType::kF32);
  const Tensor b = Tensor::zeros(device, {3, 2}, DType::kF32);
  EXPECT_THAT(message_of<ShapeError>([&] { add_into(a, b); }),
              HasSubstr("expected [2, 3] of f32, found [3, 2] of f32"));
  EXPECT_THAT(message_of<ShapeError>([&] { return add(a, a.to(DType::kF64)); }),
              HasSubstr("found [2, 3] of f64"));
  EXPECT_THROW(write_or_add(a, b, Write::kOverwrite), ShapeError);
  EXPECT_THROW(add_into(a, b.transpose(0, 1)), ShapeError);
  EXPECT_THROW(scale_into(a.transpose(0, 1), 2.0), ShapeError);
  const Tensor tokens = Tensor::zeros(device, {2}, DType::kI32);
  EXPECT_THROW(add_into(tokens, tokens), ShapeError);
}

/// Below the smallest normal f32 number products lose digits: an absolute error of that size.
constexpr double kSmallestNormal = 0x1.0p-126;

double sigmoid(double x) {
  return static_cast<double>(1.0L / (1.0L + std::exp(-static_cast<long double>(x))));
}

class SwigluTest : public test::RandomTest {
 protected:
  void draw(DType dtype) {
    const Shape shape{random.between(0, 3), random.between(1, 3), random.between(1, 65)};
    const double scale = random.pick({0.1, 3.0, 40.0});
    gate = random.tensor(device, shape, dtype, scale);
    up = random.tensor(device, shape, dtype);
    d_product = random.tensor(device, shape, dtype);
  }

  Tensor gate;
  Tensor up;
  Tensor d_product;
};

TEST_F(SwigluTest, EqualsItsDefinition) {
  for (int round = 0; round < 20; ++round) {
    const DType dtype = random.pick({DType::kF32, DType::kF64});
    draw(dtype);
    const std::vector<double> g = gate.to_vector();
    const std::vector<double> u = up.to_vector();
    std::vector<double> expected;
    std::vector<double> tolerances;
    for (std::size_t i = 0; i < g.size(); ++i) {
      expected.push_back(g[i] * sigmoid(g[i]) * u[i]);
      // exp within 2 ulp, a sum, a division, two products.
      tolerances.push_back(rounding_bound(dtype, 6, std::abs(expected[i])) +
                           kSmallestNormal * std::abs(g[i] * u[i]));
    }
    EXPECT_TRUE(all_near(swiglu(gate, up), expected, tolerances)) << gate.shape().str();
  }
}

TEST_F(SwigluTest, ExtremeGatesNeitherOverflowNorTurnIntoNan) {
  for (const DType dtype : test::kFloatDTypes) {
    const Tensor g = Tensor::empty(device, {2}, dtype);
    g.slice(0, {0, 1}).fill(1e4);
    g.slice(0, {1, 2}).fill(-1e4);
    const Tensor ones = test::filled(device, {2}, dtype, 1.0);
    EXPECT_TRUE(all_near(swiglu(g, ones), {1e4, 0.0}, 1e4 * kSmallestNormal));
    const auto [d_gate, d_up] = swiglu_backward(ones, g, ones);
    EXPECT_TRUE(all_near(d_gate, {1.0, 0.0}, 1e4 * kSmallestNormal));
    EXPECT_TRUE(all_near(d_up, {1e4, 0.0}, 1e4 * kSmallestNormal));
  }
}

TEST_F(SwigluTest, GradientsMatchFiniteDifferences) {
  for (int round = 0; round < 5; ++round) {
    const Shape shape{random.between(1, 2), random.between(1, 3), random.between(1, 17)};
    gate = random.tensor(device, shape, DType::kF64, 2.0);
    up = random.tensor(device, shape, DType::kF64);
    d_product = random.tensor(device, shape, DType::kF64);
    const auto f = [&] { return test::inner_product(d_product, swiglu(gate, up)); };
    const auto [d_gate, d_up] = swiglu_backward(d_product, gate, up);
    EXPECT_TRUE(test::gradients_match(random, f, {{"gate", gate, d_gate}, {"up", up, d_up}}));
  }
}

TEST_F(SwigluTest, SinglePrecisionGradientsStayWithinTheirRoundings) {
  draw(DType::kF32);
  const auto [d_gate, d_up] = swiglu_backward(d_product, gate, up);
  const std::vector<double> g = gate.to_vector();
  const std::vector<double> u = up.to_vector();
  const std::vector<double> d = d_product.to_vector();
  std::vector<double> expected_gate;
  std::vector<double> expected_up;
  std::vector<double> tolerance_gate;
  std::vector<double> tolerance_up;
  for (std::size_t i = 0; i < g.size(); ++i) {
    const double s = sigmoid(g[i]);
    expected_gate.push_back(d[i] * u[i] * (s + g[i] * s * (1.0 - s)));
    expected_up.push_back(d[i] * g[i] * s);
    // The sigmoid's four roundings come back in 1 - s; then three products and two sums.
    tolerance_gate.push_back(
        rounding_bound(DType::kF32, 12, std::abs(d[i] * u[i]) * (s + std::abs(g[i]) * s)) +
        kSmallestNormal * (1.0 + std::abs(d[i] * u[i] * g[i])));
    tolerance_up.push_back(rounding_bound(DType::kF32, 6, std::abs(expected_up[i])) +
                           kSmallestNormal * (1.0 + std::abs(d[i] * g[i])));
  }
  EXPECT_TRUE(all_near(d_gate, expected_gate, tolerance_gate));
  EXPECT_TRUE(all_near(d_up, expected_up, tolerance_up));
}

TEST_F(SwigluTest, ShapesMustAgree) {
  const Tensor a = Tensor::zeros(device, {2, 3}, DType::kF32);
  const Tensor b = Tensor::zeros(device, {3, 2}, DType::kF32);
  EXPECT_THAT(message_of<ShapeError>([&] { return swiglu(a, b); }),
              HasSubstr("up of swiglu: expected [2, 3] of f32, found [3, 2] of f32"));
  EXPECT_THAT(message_of<ShapeError>([&] { return swiglu_backward(b, a, a); }),
              HasSubstr("d_product"));
  EXPECT_THROW(static_cast<void>(swiglu(a.transpose(0, 1), b)), ShapeError);
}

}  // namespace
}  // namespace ultra::ops

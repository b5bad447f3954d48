#include "common/ops/elementwise.hpp"
#include "tests/support/toolbox.hpp"

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

}  // namespace
}  // namespace ultra::ops

#include "common/ops/rms_norm.hpp"

#include "tests/support/toolbox.hpp"
#include "tests/support/training/finite_difference.hpp"

namespace ultra::ops {
namespace {

constexpr double kEpsilon = 1e-5;

/// 1 / sqrt(mean(x^2) + epsilon) of each row.
std::vector<double> reciprocal_rms_of(const std::vector<double>& x, std::size_t hidden) {
  std::vector<double> result;
  for (std::size_t row = 0; row < x.size() / hidden; ++row) {
    long double squares = 0.0L;
    for (std::size_t i = 0; i < hidden; ++i) {
      squares += static_cast<long double>(x[row * hidden + i]) * x[row * hidden + i];
    }
    result.push_back(static_cast<double>(
        1.0L / std::sqrt(squares / static_cast<long double>(hidden) + kEpsilon)));
  }
  return result;
}

class RmsNormTest : public test::RandomTest {
 protected:
  /// Inputs of a random shape, odd widths and a width of one included.
  void draw(DType dtype) {
    const std::size_t hidden = random.pick({std::size_t{1}, random.between(2, 90)});
    x = random.tensor(device, {random.between(0, 3), random.between(1, 5), hidden}, dtype,
                      random.pick({0.01, 1.0, 30.0}));
    weight = random.tensor(device, {hidden}, dtype);
    d_y = random.tensor(device, x.shape(), dtype);
  }

  Tensor x;
  Tensor weight;
  Tensor d_y;
};

TEST_F(RmsNormTest, EqualsItsDefinition) {
  for (int round = 0; round < 20; ++round) {
    const DType dtype = random.pick({DType::kF32, DType::kF64});
    draw(dtype);
    const std::size_t hidden = x.size(-1);
    const auto [y, reciprocal_rms] = rms_norm(x, weight, kEpsilon);
    const std::vector<double> values = x.to_vector();
    const std::vector<double> w = weight.to_vector();
    const std::vector<double> r = reciprocal_rms_of(values, hidden);
    // A sum of `hidden` squares, a division, a sum, a root, a reciprocal, epsilon, two products.
    const double roundings = count_of(hidden) + 7;
    std::vector<double> expected;
    std::vector<double> tolerances;
    for (std::size_t i = 0; i < values.size(); ++i) {
      expected.push_back(values[i] * r[i / hidden] * w[i % hidden]);
      tolerances.push_back(rounding_bound(dtype, roundings, std::abs(expected[i])));
    }
    EXPECT_TRUE(all_near(y, expected, tolerances)) << x.shape().str();
    EXPECT_EQ(reciprocal_rms.shape(), (Shape{x.size(0), x.size(1)}));
    EXPECT_TRUE(
        all_near(reciprocal_rms, r, rounding_bound(dtype, roundings, test::largest_magnitude(r))));
  }
}

TEST_F(RmsNormTest, GradientsMatchFiniteDifferences) {
  for (int round = 0; round < 6; ++round) {
    const std::size_t hidden = random.pick({std::size_t{1}, random.between(2, 40)});
    x = random.tensor(device, {random.between(1, 2), random.between(1, 3), hidden}, DType::kF64);
    weight = random.tensor(device, {hidden}, DType::kF64);
    d_y = random.tensor(device, x.shape(), DType::kF64);
    // A wide epsilon keeps single elements (hidden = 1) from being constant up to their sign.
    const auto f = [&] { return test::inner_product(d_y, rms_norm(x, weight, 0.5).y); };
    const Tensor d_weight = Tensor::empty(device, weight.shape(), DType::kF64);
    const Tensor d_x = rms_norm_backward(d_y, x, weight, rms_norm(x, weight, 0.5).reciprocal_rms,
                                         d_weight, Write::kOverwrite);
    EXPECT_TRUE(test::gradients_match(random, f, {{"x", x, d_x}, {"weight", weight, d_weight}}))
        << x.shape().str();
  }
}

TEST_F(RmsNormTest, SinglePrecisionGradientsStayWithinTheirRoundings) {
  for (int round = 0; round < 10; ++round) {
    draw(DType::kF32);
    const std::size_t hidden = x.size(-1);
    const Tensor r = rms_norm(x, weight, kEpsilon).reciprocal_rms;
    const Tensor d_weight = Tensor::empty(device, weight.shape(), DType::kF32);
    const Tensor d_x = rms_norm_backward(d_y, x, weight, r, d_weight, Write::kOverwrite);
    std::vector<double> expected;
    std::vector<double> tolerances;
    const std::vector<double> xs = x.to_vector();
    const std::vector<double> dys = d_y.to_vector();
    const std::vector<double> ws = weight.to_vector();
    const std::vector<double> rs = r.to_vector();
    for (std::size_t i = 0; i < xs.size(); ++i) {
      const double scale = rs[i / hidden];
      double dot = 0.0;
      double size = 0.0;
      for (std::size_t j = 0; j < hidden; ++j) {
        const double term = dys[i / hidden * hidden + j] * ws[j] * xs[i / hidden * hidden + j];
        dot += term;
        size += std::abs(term);
      }
      const double shrink = scale * scale / count_of(hidden);
      expected.push_back(scale * (dys[i] * ws[i % hidden] - xs[i] * dot * shrink));
      tolerances.push_back(rounding_bound(
          DType::kF32, count_of(hidden) + 8,
          scale * (std::abs(dys[i] * ws[i % hidden]) + std::abs(xs[i]) * size * shrink)));
    }
    EXPECT_TRUE(all_near(d_x, expected, tolerances)) << x.shape().str();
  }
}

TEST_F(RmsNormTest, NanGoesThrough) {
  const Tensor input = Tensor::zeros(device, {1, 40}, DType::kF32);
  input.slice(1, {7, 8}).fill(std::nan(""));
  const Tensor ones = test::filled(device, {40}, DType::kF32, 1.0);
  for (const double y : rms_norm(input, ones, kEpsilon).y.to_vector()) EXPECT_TRUE(std::isnan(y));
}

TEST_F(RmsNormTest, ShapesThatDoNotFitAreNamed) {
  const Tensor input = Tensor::zeros(device, {2, 3}, DType::kF32);
  const Tensor w = Tensor::zeros(device, {3}, DType::kF32);
  const Tensor wrong = Tensor::zeros(device, {4}, DType::kF32);
  EXPECT_THAT(message_of<ShapeError>([&] { return rms_norm(input, wrong, kEpsilon); }),
              HasSubstr("weight of rms_norm: expected [3] of f32, found [4]"));
  EXPECT_THROW(static_cast<void>(rms_norm(Tensor(), w, kEpsilon)), ShapeError);
  const Tensor r = rms_norm(input, w, kEpsilon).reciprocal_rms;
  const auto backward = [&](const Tensor& dy, const Tensor& rr, const Tensor& dw) {
    return message_of<ShapeError>(
        [&] { return rms_norm_backward(dy, input, w, rr, dw, Write::kOverwrite); });
  };
  EXPECT_THAT(backward(wrong, r, w), HasSubstr("d_y of rms_norm_backward"));
  EXPECT_THAT(backward(input, wrong, w), HasSubstr("reciprocal_rms"));
  EXPECT_THAT(backward(input, r, wrong), HasSubstr("d_weight"));
}

}  // namespace
}  // namespace ultra::ops

#include "common/ops/adamw.hpp"
#include "common/tensor/host_view.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::ops {
namespace {

/// One weight's update as the paper writes it (Loshchilov & Hutter 2019, alg. 2), in extended
/// precision, with the size of the terms that rounding acts on.
struct PaperAdamW {
  PaperAdamW(double value, double grad, double m0, double v0, const AdamWStep& c) {
    const long double g = static_cast<long double>(c.gradient_scale) * grad;
    const long double b1 = c.beta1;
    const long double b2 = c.beta2;
    const long double m = b1 * m0 + (1.0L - b1) * g;
    const long double v = b2 * v0 + (1.0L - b2) * g * g;
    const long double correction1 = 1.0L - std::pow(b1, c.step);
    const long double correction2 = 1.0L - std::pow(b2, c.step);
    const long double denominator = std::sqrt(v / correction2) + c.epsilon;
    const long double decay = static_cast<long double>(c.learning_rate) * c.weight_decay;
    const long double m_size = std::abs(b1 * m0) + std::abs((1.0L - b1) * g);
    first_moment = static_cast<double>(m);
    second_moment = static_cast<double>(v);
    weight = static_cast<double>(value - decay * value -
                                 c.learning_rate * (m / correction1) / denominator);
    moment_size = static_cast<double>(m_size);
    weight_size = std::abs(value) +
                  static_cast<double>(c.learning_rate * (m_size / correction1) / denominator);
  }

  double first_moment;
  double second_moment;
  double weight;
  double moment_size;
  double weight_size;
};

/// f64 computes 1 - beta^t with the rounding error of beta^t: this many times its own size.
double cancellation(const AdamWStep& c) {
  return c.step * std::pow(c.beta1, c.step) / (1.0 - std::pow(c.beta1, c.step)) +
         c.step * std::pow(c.beta2, c.step) / (1.0 - std::pow(c.beta2, c.step));
}

class AdamWTest : public test::RandomTest {
 protected:
  void draw(DType dtype) {
    const Shape shape{random.between(0, 4), random.between(1, 40)};
    value = random.tensor(device, shape, dtype);
    grad = random.tensor(device, shape, dtype, random.pick({1e-6, 1.0, 1e3}));
    first_moment = random.tensor(device, shape, dtype, 0.1);
    second_moment = random.tensor(device, shape, dtype, 0.1);
    dispatch_float(dtype, [&]<class T>() {
      for (T& v : HostView<T>(second_moment, HostAccess::kReadWrite)) v = v * v;
    });
  }

  [[nodiscard]] AdamWStep constants() {
    return {.learning_rate = random.pick({1e-4, 1e-2, 0.0}),
            .beta1 = random.pick({0.0, 0.9}),
            .beta2 = random.pick({0.95, 0.999}),
            .epsilon = random.pick({1e-8, 1e-3}),
            .weight_decay = random.pick({0.0, 0.1}),
            .gradient_scale = random.pick({1.0, 0.37}),
            .step = static_cast<int>(random.between(1, 2000))};
  }

  Tensor value;
  Tensor grad;
  Tensor first_moment;
  Tensor second_moment;
};

/// What one step should give, element by element.
struct ExpectedUpdate {
  ExpectedUpdate(const Tensor& value, const Tensor& grad, const Tensor& first_moment,
                 const Tensor& second_moment, const AdamWStep& c) {
    const std::vector<double> w = value.to_vector();
    const std::vector<double> g = grad.to_vector();
    const std::vector<double> m = first_moment.to_vector();
    const std::vector<double> v = second_moment.to_vector();
    const DType dtype = value.dtype();
    for (std::size_t i = 0; i < w.size(); ++i) {
      const PaperAdamW paper(w[i], g[i], m[i], v[i], c);
      weights.push_back(paper.weight);
      first.push_back(paper.first_moment);
      second.push_back(paper.second_moment);
      // beta, 1 - beta and the scale are rounded, then two products and a sum; the update has a
      // root, three products, a division and two sums more.
      first_tolerance.push_back(rounding_bound(dtype, 6, paper.moment_size) + 0x1.0p-125);
      second_tolerance.push_back(rounding_bound(dtype, 8, paper.second_moment) + 0x1.0p-125);
      weight_tolerance.push_back(
          rounding_bound(dtype, 20, paper.weight_size) +
          rounding_bound(DType::kF64, 2 * cancellation(c) + 4, paper.weight_size));
    }
  }

  std::vector<double> weights, first, second;
  std::vector<double> weight_tolerance, first_tolerance, second_tolerance;
};

TEST_F(AdamWTest, OneStepEqualsThePaper) {
  for (int round = 0; round < 40; ++round) {
    const DType dtype = random.pick({DType::kF32, DType::kF64});
    draw(dtype);
    const AdamWStep c = constants();
    const ExpectedUpdate expected(value, grad, first_moment, second_moment, c);
    const std::vector<double> grad_before = grad.to_vector();
    adamw_into(value, grad, first_moment, second_moment, c);
    EXPECT_TRUE(all_near(first_moment, expected.first, expected.first_tolerance));
    EXPECT_TRUE(all_near(second_moment, expected.second, expected.second_tolerance));
    EXPECT_TRUE(all_near(value, expected.weights, expected.weight_tolerance))
        << "step " << c.step << " beta1 " << c.beta1 << " beta2 " << c.beta2;
    EXPECT_TRUE(test::all_equal(grad, grad_before));
  }
}

TEST_F(AdamWTest, ShapesAndDTypesMustAgree) {
  const Tensor a = Tensor::zeros(device, {3}, DType::kF32);
  const Tensor b = Tensor::zeros(device, {4}, DType::kF32);
  const auto fails = [&](const Tensor& g, const Tensor& m, const Tensor& v) {
    return message_of<ShapeError>([&] { adamw_into(a, g, m, v, {}); });
  };
  EXPECT_THAT(fails(b, a, a), HasSubstr("grad of adamw: expected [3] of f32, found [4]"));
  EXPECT_THAT(fails(a, b, a), HasSubstr("first moment"));
  EXPECT_THAT(fails(a, a, a.to(DType::kF64)), HasSubstr("second moment"));
  EXPECT_THROW(adamw_into(Tensor(), a, a, a, {}), ShapeError);
  const AdamWTensors rounded{
      .value = a, .grad = a, .first_moment = a, .second_moment = a, .rounded = b};
  EXPECT_THAT(message_of<ShapeError>([&] {
                adamw_into({&rounded, 1}, {});
              }),
              HasSubstr("rounded weights of adamw: expected [3] of f32, found [4]"));
}

}  // namespace
}  // namespace ultra::ops

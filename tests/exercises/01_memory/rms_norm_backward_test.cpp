#include "chapters/01_memory/rms_norm_backward.hpp"

#include "common/ops/rms_norm.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/finite_difference.hpp"

namespace ultra {
namespace {

// Larger than the model's: a row whose mean square is near epsilon bends so sharply that finite
// differences follow it only if epsilon is not too small. Its fifth derivative is up to 45 epsilon^-2.5.
constexpr double kEpsilon = 1e-2;

struct Rows {
  Tensor x;
  Tensor weight;
  Tensor d_y;
  Tensor reciprocal_rms;
  Tensor d_x;
  Tensor d_weight;
};

Rows random_rows(test::Random& random, const Device& device, std::size_t rows, std::size_t hidden,
                 DType dtype) {
  const Tensor x = random.tensor(device, {rows, hidden}, dtype, 2.0);
  const Tensor weight = random.tensor(device, {hidden}, dtype);
  return {.x = x,
          .weight = weight,
          .d_y = random.tensor(device, {rows, hidden}, dtype),
          .reciprocal_rms = ops::rms_norm(x, weight, kEpsilon).reciprocal_rms,
          .d_x = Tensor::zeros(device, {rows, hidden}, dtype),
          .d_weight = Tensor::zeros(device, {hidden}, dtype)};
}

template <class T>
void run_rows(const Rows& r) {
  const std::size_t hidden = r.x.size(1);
  for (std::size_t row = 0; row < r.x.size(0); ++row) {
    const auto part = [&](const Tensor& t) { return t.span<T>().subspan(row * hidden, hidden); };
    memory::rms_norm_backward_row<T>(part(r.d_y), part(r.x), r.weight.span<T>(),
                                     r.reciprocal_rms.span<T>()[row], part(r.d_x),
                                     r.d_weight.span<T>());
  }
}

/// Names the typical mistake that a wrong d_x of one row is, or says nothing.
std::string diagnose(const Rows& r) {
  const std::vector<double> x = r.x.to_vector();
  const std::vector<double> w = r.weight.to_vector();
  const std::vector<double> d_y = r.d_y.to_vector();
  const std::vector<double> d_x = r.d_x.to_vector();
  const double scale = r.reciprocal_rms.to_vector().front();
  double dot = 0;
  for (std::size_t i = 0; i < w.size(); ++i) dot += w[i] * d_y[i] * x[i] * scale;
  const auto matches = [&](double mean) {
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double expected = scale * (w[i] * d_y[i] - x[i] * scale * mean);
      if (!(std::abs(d_x[i] - expected) <= 1e-9 * (1.0 + std::abs(expected)))) return false;
    }
    return true;
  };
  if (matches(0.0)) {
    return "Hint: r depends on every x of the row. The gradient that flows through r is missing.";
  }
  if (matches(dot)) {
    return "Hint: the term through r holds a mean over the row: divide the sum by hidden.";
  }
  return "";
}

class RmsNormBackwardRow : public test::RandomTest {};

TEST_F(RmsNormBackwardRow, MatchesFiniteDifferences) {
  for (const std::size_t hidden : {std::size_t{1}, std::size_t{2}, random.between(3, 40)}) {
    SCOPED_TRACE("hidden " + std::to_string(hidden));
    const Rows r = random_rows(random, device, 1, hidden, DType::kF64);
    run_rows<double>(r);
    const auto loss = [&] {
      return test::inner_product(r.d_y, ops::rms_norm(r.x, r.weight, kEpsilon).y);
    };
    EXPECT_TRUE(test::gradients_match(random, loss,
                                      {{"d_x", r.x, r.d_x}, {"d_weight", r.weight, r.d_weight}}))
        << diagnose(r);
  }
}

TEST_F(RmsNormBackwardRow, AddsUpTheWeightsGradientOverRows) {
  const Rows r = random_rows(random, device, 2, random.between(2, 20), DType::kF64);
  run_rows<double>(r);
  const std::vector<double> both = r.d_weight.to_vector();
  const Rows last{r.x.slice(0, {1, 2}),   r.weight,
                  r.d_y.slice(0, {1, 2}), r.reciprocal_rms.slice(0, {1, 2}),
                  r.d_x.clone(),          Tensor::zeros(device, r.weight.shape(), DType::kF64)};
  run_rows<double>(last);
  const bool overwritten = both == last.d_weight.to_vector();
  EXPECT_FALSE(overwritten)
      << "Hint: every row of the batch adds to d_weight; here the last row has overwritten it.";
}

TEST_F(RmsNormBackwardRow, AgreesWithTheFusedOperation) {
  for (const DType dtype : test::kFloatDTypes) {
    const Rows r = random_rows(random, device, random.between(1, 9), random.between(1, 70), dtype);
    dispatch_float(dtype, [&]<class T>() { run_rows<T>(r); });
    const Tensor d_weight = Tensor::zeros(device, r.weight.shape(), dtype);
    const Tensor d_x = ops::rms_norm_backward(r.d_y, r.x, r.weight, r.reciprocal_rms, d_weight,
                                              ops::Write::kOverwrite);
    // Sums of `hidden` (d_x) and `rows` (d_weight) products of a few factors each.
    const double roundings = static_cast<double>(r.x.numel() + 8);
    const double magnitude = test::largest_magnitude(r.d_y.to_vector()) *
                             test::largest_magnitude(r.x.to_vector()) *
                             (1.0 + test::largest_magnitude(r.weight.to_vector())) *
                             (1.0 + test::largest_magnitude(r.reciprocal_rms.to_vector()));
    const double squared = 1.0 + test::largest_magnitude(r.reciprocal_rms.to_vector()) *
                                     test::largest_magnitude(r.x.to_vector());
    const double tolerance = rounding_bound(dtype, roundings, magnitude * squared);
    EXPECT_TRUE(all_near(r.d_x, d_x, tolerance));
    EXPECT_TRUE(all_near(r.d_weight, d_weight, tolerance));
  }
}

}  // namespace
}  // namespace ultra

#include "tests/support/training/finite_difference.hpp"

#include "common/tensor/host_view.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::test {
namespace {

constexpr double kStep = 0x1.0p-11;

/// What the roundings of f make of a slope of zero (attention over one key has such gradients).
double slope_floor(const std::function<double()>& f) {
  return 8.0 * epsilon_of(DType::kF64) * std::max(1.0, std::abs(f())) / kStep;
}

/// Slope at 0 of f after `move(t)` has put the point t along some line.
double central_difference(const std::function<double()>& f,
                          const std::function<void(double)>& move) {
  const auto value_at = [&](double t) {
    move(t);
    return f();
  };
  const double near = value_at(kStep) - value_at(-kStep);
  const double far = value_at(2 * kStep) - value_at(-2 * kStep);
  move(0.0);
  return (8.0 * near - far) / (12.0 * kStep);
}

std::vector<std::size_t> indices_to_check(Random& random, std::size_t count, std::size_t elements) {
  std::vector<std::size_t> indices(count);
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  if (count <= elements) return indices;
  random.shuffle(indices);
  indices.resize(elements);
  return indices;
}

::testing::AssertionResult elements_match(Random& random, const std::function<double()>& f,
                                          const Differentiated& at, std::size_t elements) {
  const std::vector<double> x = at.x.to_vector();
  const std::vector<double> gradient = at.gradient.to_vector();
  const double scale = largest_magnitude(gradient);
  const double tolerance = kGradientTolerance * scale + slope_floor(f);
  for (const std::size_t i : indices_to_check(random, x.size(), elements)) {
    const double slope = central_difference(
        f, [&](double t) { HostView<double>(at.x, HostAccess::kReadWrite)[i] = x[i] + t; });
    if (!(std::abs(slope - gradient[i]) <= tolerance)) {
      return ::testing::AssertionFailure() << fmt::format(
                 "d f / d {}[{}] is {:.12g} by finite differences, found {:.12g}; the largest "
                 "gradient of {} is {:.3g}",
                 at.name, i, slope, gradient[i], at.x.shape().str(), scale);
    }
  }
  return ::testing::AssertionSuccess();
}

/// The slope along one random direction through all elements of a tensor sees every element.
::testing::AssertionResult direction_matches(Random& random, const std::function<double()>& f,
                                             const Differentiated& at) {
  const std::vector<double> from = at.x.to_vector();
  const Tensor direction = random.tensor(at.x.device(), at.x.shape(), DType::kF64);
  const double length = std::max(1.0, std::sqrt(inner_product(direction, direction)));
  const std::vector<double> along = direction.to_vector();
  const double slope = central_difference(f, [&](double t) {
    const HostView<double> x(at.x, HostAccess::kWrite);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = from[i] + t * along[i] / length;
  });
  const double expected = inner_product(direction, at.gradient) / length;
  const double scale = std::sqrt(inner_product(at.gradient, at.gradient));
  if (!(std::abs(slope - expected) <= kGradientTolerance * scale + slope_floor(f))) {
    return ::testing::AssertionFailure() << fmt::format(
               "the slope of f along a random direction of {} is {:.12g} by finite differences, "
               "found {:.12g}; the gradient's norm is {:.3g}",
               at.name, slope, expected, scale);
  }
  return ::testing::AssertionSuccess();
}

}  // namespace

::testing::AssertionResult gradients_match(Random& random, const std::function<double()>& f,
                                           const std::vector<Differentiated>& at,
                                           std::size_t elements) {
  for (const Differentiated& one : at) {
    if (one.gradient.shape() != one.x.shape()) {
      return ::testing::AssertionFailure()
             << fmt::format("the gradient of {} has shape {}, expected {}", one.name,
                            one.gradient.shape().str(), one.x.shape().str());
    }
    for (const auto& result :
         {elements_match(random, f, one, elements), direction_matches(random, f, one)}) {
      if (!result) return result;
    }
  }
  return ::testing::AssertionSuccess();
}

double inner_product(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = a.to_vector();
  const std::vector<double> y = b.to_vector();
  long double sum = 0.0L;
  for (std::size_t i = 0; i < x.size(); ++i) {
    sum += static_cast<long double>(x[i]) * static_cast<long double>(y[i]);
  }
  return static_cast<double>(sum);
}

}  // namespace ultra::test

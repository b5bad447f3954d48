#include "tests/support/compare.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace ultra::test {
namespace {

/// The indices of element `flat` of a row-major tensor: "[1, 0, 7]".
std::string index_text(const Shape& shape, std::size_t flat) {
  std::vector<std::size_t> index(shape.rank());
  for (std::size_t d = shape.rank(); d-- > 0;) {
    index[d] = flat % shape[static_cast<int>(d)];
    flat /= shape[static_cast<int>(d)];
  }
  return fmt::format("[{}]", fmt::join(index, ", "));
}

/// Error in units of the tolerance; NaN and other infinities count as infinitely wrong.
double excess(double actual, double expected, double tolerance) {
  if (actual == expected) return 0.0;
  const double error = std::abs(actual - expected);
  if (!(error <= std::numeric_limits<double>::max())) {
    return std::numeric_limits<double>::infinity();
  }
  return tolerance > 0.0 ? error / tolerance : std::numeric_limits<double>::infinity();
}

::testing::AssertionResult same_kind(const Tensor& actual, const Tensor& expected) {
  if (actual.shape() == expected.shape() && actual.dtype() == expected.dtype()) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << fmt::format(
             "found {} of {}, expected {} of {}", actual.shape().str(), to_string(actual.dtype()),
             expected.shape().str(), to_string(expected.dtype()));
}

}  // namespace

double epsilon_of(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return 0x1.0p-7;
    case DType::kF16:
      return 0x1.0p-10;
    case DType::kF32:
      return 0x1.0p-23;
    case DType::kF64:
    case DType::kI32:
      break;
  }
  return std::numeric_limits<double>::epsilon();
}

double rounding_bound(DType dtype, double roundings, double magnitude) {
  // Below its smallest normal number f16 is evenly spaced; the other types are never that small.
  constexpr double kSmallestNormalF16 = 0x1.0p-14;
  if (dtype == DType::kF16) magnitude = std::max(magnitude, kSmallestNormalF16);
  return roundings * epsilon_of(dtype) * magnitude;
}

double largest_magnitude(const std::vector<double>& values) {
  double largest = 0.0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

::testing::AssertionResult all_near(const Tensor& actual, const std::vector<double>& expected,
                                    const std::vector<double>& tolerances) {
  if (actual.numel() != expected.size() || actual.numel() != tolerances.size()) {
    return ::testing::AssertionFailure()
           << fmt::format("{} of {} elements against {} values and {} tolerances",
                          actual.shape().str(), actual.numel(), expected.size(), tolerances.size());
  }
  const std::vector<double> values = actual.to_vector();
  std::size_t worst = 0;
  std::size_t wrong = 0;
  double worst_excess = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double e = excess(values[i], expected[i], tolerances[i]);
    if (e > 1.0) ++wrong;
    if (e > worst_excess) {
      worst = i;
      worst_excess = e;
    }
  }
  if (wrong == 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << fmt::format(
             "{} of {} elements differ; the worst at {} of {}: found {:.17g}, expected "
             "{:.17g}, tolerance {:.3g}",
             wrong, values.size(), index_text(actual.shape(), worst), actual.shape().str(),
             values[worst], expected[worst], tolerances[worst]);
}

::testing::AssertionResult all_near(const Tensor& actual, const std::vector<double>& expected,
                                    double tolerance) {
  return all_near(actual, expected, std::vector<double>(expected.size(), tolerance));
}

::testing::AssertionResult all_near(const Tensor& actual, const Tensor& expected,
                                    double tolerance) {
  const ::testing::AssertionResult same = same_kind(actual, expected);
  return same ? all_near(actual, expected.to_vector(), tolerance) : same;
}

::testing::AssertionResult all_equal(const Tensor& actual, const Tensor& expected) {
  return all_near(actual, expected, 0.0);
}

::testing::AssertionResult all_equal(const Tensor& actual, const std::vector<double>& expected) {
  return all_near(actual, expected, 0.0);
}

}  // namespace ultra::test

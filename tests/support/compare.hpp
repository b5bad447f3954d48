#pragma once
/// @file
/// Comparisons of tensors with expected values, and the one place where tolerances are derived.
///
/// Standard model of rounding: each operation gives its exact result times (1 + d), |d| <= eps / 2.
/// After n operations on terms whose magnitudes add up to m, the error is at most n * eps * m to
/// first order (Higham 2002, "Accuracy and stability of numerical algorithms", ch. 3). A test
/// states n and m; no tolerance is found by trying.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "common/tensor/tensor.hpp"

namespace ultra::test {

/// @brief Distance from 1 to the next number of the type: 2^-23 for f32, 2^-52 for f64, 2^-7 for
/// bf16, 2^-10 for f16.
[[nodiscard]] double epsilon_of(DType dtype);

/// @brief Largest error of `roundings` operations on terms of total size `magnitude`.
[[nodiscard]] double rounding_bound(DType dtype, double roundings, double magnitude);

/// @brief A size as a number of roundings.
[[nodiscard]] inline double count_of(std::size_t count) { return static_cast<double>(count); }

/// @brief Largest absolute value; 0 for no values.
[[nodiscard]] double largest_magnitude(const std::vector<double>& values);

/// @brief The largest absolute difference of two lists; infinite if they are not equally long, or a
/// difference is not a number.
[[nodiscard]] inline double largest_difference(const std::vector<double>& a,
                                               const std::vector<double>& b) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  if (a.size() != b.size()) return kInfinite;
  double largest = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    if (std::isnan(difference)) return kInfinite;  // std::max() would keep `largest`
    largest = std::max(largest, difference);
  }
  return largest;
}

/// @brief Every element within its own tolerance; else the worst one, its index and both values.
[[nodiscard]] ::testing::AssertionResult all_near(const Tensor& actual,
                                                  const std::vector<double>& expected,
                                                  const std::vector<double>& tolerances);

/// @brief Every element within one tolerance.
[[nodiscard]] ::testing::AssertionResult all_near(const Tensor& actual,
                                                  const std::vector<double>& expected,
                                                  double tolerance);

/// @brief Same shape and dtype, every element within one tolerance.
[[nodiscard]] ::testing::AssertionResult all_near(const Tensor& actual, const Tensor& expected,
                                                  double tolerance);

/// @brief Same shape, dtype and values, element for element.
[[nodiscard]] ::testing::AssertionResult all_equal(const Tensor& actual, const Tensor& expected);

/// @brief Same values, element for element.
[[nodiscard]] ::testing::AssertionResult all_equal(const Tensor& actual,
                                                   const std::vector<double>& expected);

/// @brief The message of the exception of type E that `fn` throws; fails the test without one.
template <class E, class Fn>
[[nodiscard]] std::string message_of(Fn&& fn) {
  try {
    fn();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another type of exception was thrown: " << error.what();
    return {};
  }
  ADD_FAILURE() << "no exception was thrown";
  return {};
}

}  // namespace ultra::test

#pragma once
/// @file
/// Inputs and outputs of kernels in bf16, on the host.

#include <cmath>
#include <vector>

#include "chapters/09_kernels/report/verdict.hpp"
#include "kernels/simt/small_floats.cuh"

namespace ultra::ladders {

/// @brief The nearest bf16 of each value.
[[nodiscard]] inline std::vector<simt::bf16> to_bf16(const std::vector<float>& values) {
  std::vector<simt::bf16> rounded;
  rounded.reserve(values.size());
  for (const float value : values) {
    rounded.emplace_back(value);
  }
  return rounded;
}

/// @brief The exact float of each value.
[[nodiscard]] inline std::vector<float> to_float(const std::vector<simt::bf16>& values) {
  std::vector<float> exact;
  exact.reserve(values.size());
  for (const simt::bf16 value : values) {
    exact.push_back(static_cast<float>(value));
  }
  return exact;
}

/// @brief The exact value in f64.
[[nodiscard]] inline double value_of(simt::bf16 value) { return double{static_cast<float>(value)}; }

/// @brief The most that a bf16 result is off whose fp32 value is off by `error`: that, and the
/// rounding.
[[nodiscard]] inline double bf16_error(double expected, double error) {
  return error + kBf16Rounding * (std::abs(expected) + error);
}

/// @brief The values themselves, for code of either precision.
[[nodiscard]] inline std::vector<float> to_float(std::vector<float> values) { return values; }

}  // namespace ultra::ladders

#pragma once
/// @file
/// Inputs and outputs of kernels in bf16, on the host.

#include <vector>

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

/// @brief The values themselves, for code of either precision.
[[nodiscard]] inline std::vector<float> to_float(std::vector<float> values) { return values; }

}  // namespace ultra::ladders

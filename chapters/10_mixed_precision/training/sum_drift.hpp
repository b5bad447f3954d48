#pragma once
/// @file
/// What becomes of a gradient that is added up over micro-batches in two bytes.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/tensor/dtype.hpp"

namespace ultra::mixed_precision {

/// @brief Errors of sums of so many gradients, over the length of the exact sum.
struct SumDrift {
  std::size_t micro_batches = 0;  ///< gradients added up
  double rounded_each = 0;        ///< the sum is rounded to two bytes at each addition
  double rounded_once = 0;        ///< the sum is f32, rounded at the end
};

/// @brief Adds gradients of two bytes up as a step does: one micro-batch after the other.
///
/// Gradients are a mean of 1 with noise of deviation 1, drawn by `seed`.
/// @param dtype  kBF16 or kF16.
[[nodiscard]] SumDrift sum_drift(std::size_t micro_batches, DType dtype, std::uint64_t seed);

/// @brief That of 1 to 1024 micro-batches in bf16 and f16 as a table.
[[nodiscard]] std::string sum_drift_table(std::uint64_t seed);

}  // namespace ultra::mixed_precision

#pragma once
/// @file
/// Arithmetic that rounds each result to two bytes, as f32 numbers.

#include "common/base/errors.hpp"
#include "common/tensor/dtype.hpp"
#include "common/tensor/half_types.hpp"

namespace ultra::mixed_precision {

/// @brief The nearest number of two bytes, ties to even.
template <HalfScalar T>
[[nodiscard]] float rounded(float x) {
  return static_cast<float>(round_to<T>(x));
}

/// @brief Calls `fn` with T, the type of two bytes, as its template argument.
/// @throws InternalError for another type.
template <class Fn>
auto with_half(DType dtype, const Fn& fn) {
  if (dtype == DType::kBF16) return fn.template operator()<BFloat16>();
  ensure(dtype == DType::kF16, "sums that are rounded to two bytes are of such numbers");
  return fn.template operator()<Float16>();
}

}  // namespace ultra::mixed_precision

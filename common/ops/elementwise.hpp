#pragma once
/// @file
/// Element by element: sums, scaling, sums of squares.
///
/// Elements of bf16 and f16 are added and scaled in f32, and rounded once.

#include "common/ops/matmul.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::ops {

/// @brief A new tensor a + b; both have one shape and dtype.
[[nodiscard]] Tensor add(const Tensor& a, const Tensor& b);

/// @brief a += b, in place; of f32, bf16 and f16, a and b may be two different types.
/// @throws ShapeError when the shapes differ, or the types do not go together.
void add_into(const Tensor& a, const Tensor& b);

/// @brief a = b or a += b, in place, of the types that add_into takes.
void write_or_add(const Tensor& a, const Tensor& b, Write write);

/// @brief a *= factor, in place.
void scale_into(const Tensor& a, double factor);

/// @brief Sum of the squares of all elements, accumulated in f64 in a fixed order.
/// On a device with streams the host waits for it.
[[nodiscard]] double sum_of_squares(const Tensor& x);

/// @brief sum = or += the sum of the squares of all elements of x; nobody waits.
/// @param sum  [digits_of_sums()] of f64, on x's device.
void sum_of_squares_into(const Tensor& sum, const Tensor& x, Write write);

}  // namespace ultra::ops

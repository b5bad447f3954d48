#pragma once
/// @file
/// Which element types an operation mixes.

#include "common/tensor/tensor.hpp"

namespace ultra::ops {

/// @brief Throws ShapeError unless `tensor` has this shape, and elements of `dtype` or of the type
/// in which such elements are summed (accumulation_dtype).
void expect_stored_or_sums(const char* name, const Tensor& tensor, const Shape& shape, DType dtype);

/// @brief Throws ShapeError unless `tensor` has this shape, and elements of `dtype`; where that is
/// f32, bf16 or f16, any of the three will do.
void expect_converts(const char* name, const Tensor& tensor, const Shape& shape, DType dtype);

}  // namespace ultra::ops

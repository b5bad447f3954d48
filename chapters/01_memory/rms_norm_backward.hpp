#pragma once
/// @file
/// The backward pass of RMSNorm, one row at a time.
///
/// Exercise 01.2 (`./workbook check 01.2`). Body: solutions/01_memory/rms_norm_backward.cpp.

#include <span>

#include "common/tensor/dtype.hpp"

namespace ultra::memory {

/// @brief Gradients of y = x r w, with r = 1 / sqrt(mean(x^2) + epsilon), for one row.
///
/// Each x_i reaches the loss through its own y_i, and through r, which depends on every x. What the
/// forward pass must keep is x and the single number r: y is not needed, nor is epsilon.
/// Requires: T is float or double (both are instantiated).
/// @param d_y             [hidden], gradient of the row's output.
/// @param x               [hidden], the row's input.
/// @param weight          [hidden].
/// @param reciprocal_rms  r of this row, from the forward pass.
/// @param d_x             [hidden], written.
/// @param d_weight        [hidden], added to: every row of the batch contributes.
/// Source: Zhang & Sennrich 2019, "Root mean square layer normalization", sec. 4.
template <FloatingScalar T>
void rms_norm_backward_row(std::span<const T> d_y, std::span<const T> x, std::span<const T> weight,
                           T reciprocal_rms, std::span<T> d_x, std::span<T> d_weight);

}  // namespace ultra::memory

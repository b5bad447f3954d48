#pragma once
/// @file
/// Root-mean-square normalisation over the innermost dimension.

#include "common/ops/matmul.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::ops {

/// @brief What rms_norm returns.
struct RmsNormResult {
  Tensor y;               ///< [.., hidden], the normalised and scaled input
  Tensor reciprocal_rms;  ///< [..], 1 / sqrt(mean(x^2) + epsilon) of each row; f32 for bf16 and f16
};

/// @brief y = x / sqrt(mean(x^2) + epsilon) * weight, row by row.
/// @param x       [.., hidden], contiguous.
/// @param weight  [hidden], of x's type; f32 too where x is bf16 or f16.
/// Source: Zhang & Sennrich 2019, "Root mean square layer normalization", eq. 4.
[[nodiscard]] RmsNormResult rms_norm(const Tensor& x, const Tensor& weight, double epsilon);

/// @brief Gradients of rms_norm.
///
/// With r the reciprocal RMS and x_hat = x r: d_x = r (w d_y - x_hat mean(w d_y x_hat)), and
/// d_weight = sum over rows of d_y x_hat.
/// @param d_y             [.., hidden], gradient of the output.
/// @param x               [.., hidden], the input of the forward pass.
/// @param reciprocal_rms  [..], from the forward pass.
/// @param d_weight        [hidden], written or added to; as weight, or f32. Summed in f32 or f64.
/// @return d_x, [.., hidden].
[[nodiscard]] Tensor rms_norm_backward(const Tensor& d_y, const Tensor& x, const Tensor& weight,
                                       const Tensor& reciprocal_rms, const Tensor& d_weight,
                                       Write write);

}  // namespace ultra::ops

#pragma once
/// @file
/// Two tensors side by side in one, and parts of one.

#include "common/tensor/tensor.hpp"

namespace ultra::nn {

/// @brief A new tensor with `a` and, after it along the innermost dimension, `b`.
[[nodiscard]] inline Tensor beside(const Tensor& a, const Tensor& b) {
  const std::size_t cut = a.size(-1);
  const std::size_t width = cut + b.size(-1);
  const Tensor both = Tensor::empty(a.device(), a.shape().with(-1, width), a.dtype());
  both.slice(-1, {0, cut}).copy_from(a);
  both.slice(-1, {cut, width}).copy_from(b);
  return both;
}

/// @brief Elements of the innermost dimension, in memory of their own.
[[nodiscard]] inline Tensor part_of(const Tensor& x, Range range) {
  return x.slice(-1, range).contiguous();
}

}  // namespace ultra::nn

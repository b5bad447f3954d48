#pragma once
/// @file
/// The SwiGLU activation.

#include "common/tensor/tensor.hpp"

namespace ultra::ops {

/// @brief Gradients of swiglu.
struct SwigluGradients {
  Tensor d_gate;  ///< [.., ffn]
  Tensor d_up;    ///< [.., ffn]
};

/// @brief silu(gate) * up, element by element, with silu(x) = x / (1 + exp(-x)).
/// @param gate  [.., ffn], contiguous.
/// @param up    [.., ffn], contiguous.
/// Source: Shazeer 2020, "GLU variants improve transformer", arXiv 2002.05202, eq. 6.
[[nodiscard]] Tensor swiglu(const Tensor& gate, const Tensor& up);

/// @brief Gradients of swiglu from the gradient of its product.
[[nodiscard]] SwigluGradients swiglu_backward(const Tensor& d_product, const Tensor& gate,
                                              const Tensor& up);

}  // namespace ultra::ops

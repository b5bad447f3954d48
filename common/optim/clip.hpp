#pragma once
/// @file
/// Gradient clipping by global norm.

#include <span>

#include "common/tensor/tensor.hpp"

namespace ultra::optim {

/// @brief Euclidean norm of all elements of all tensors together, accumulated in f64.
[[nodiscard]] double global_norm(std::span<const Tensor> tensors);

/// @brief Factor that brings a gradient of norm `norm` down to `max_norm`; 1 when it is below.
///
/// A `max_norm` of 0 means no clipping. The factor is max_norm / norm, so that the clipped norm is
/// max_norm; PyTorch's clip_grad_norm_ divides by norm + 1e-6 instead, which is a relative
/// difference of 1e-6 / norm.
/// Source: Pascanu et al. 2013, arXiv 1211.5063, alg. 1.
[[nodiscard]] double clip_coefficient(double norm, double max_norm);

}  // namespace ultra::optim

#pragma once
/// @file
/// The sum over a dimension of a tensor, by a tree.

#include "common/tensor/tensor.hpp"

namespace ultra::ops {

/// @brief The sum over a dimension, whose places are the tree's leaves: see SumTree.
/// @param x  at least one place along `dim`.
/// @return of x's shape with 1 along `dim`; unrounded, in accumulation_dtype(): other ranks may have other
/// places.
[[nodiscard]] Tensor tree_sum(const Tensor& x, int dim);

}  // namespace ultra::ops

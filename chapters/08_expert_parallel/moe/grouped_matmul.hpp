#pragma once
/// @file
/// Grouped matrix products: rows in groups, each with a matrix of its own, in one call.
///
/// Source: Gale et al. 2023, "MegaBlocks", arXiv 2211.15841, section 3 (why batched products of one
/// size waste work); CUTLASS calls it a grouped GEMM.

#include <cstddef>
#include <span>

#include "common/ops/matmul.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::expert_parallel {

/// @brief Rows of group g of `out` = those of `a` times op(matrix g), or added to what was there.
/// @param out       [rows, n].
/// @param a         [rows, k]; the groups stand one after the other.
/// @param rows      [groups] rows of each; a group may have none.
/// @param matrices  [groups] of [k, n], or [n, k] when transposed.
/// @throws ShapeError when the rows of the groups do not add up to those of `a`, and what
/// ops::matmul_into throws.
void grouped_matmul_into(const Tensor& out, const Tensor& a, std::span<const std::size_t> rows,
                         std::span<const Tensor> matrices, ops::Transpose transpose,
                         ops::Write write = ops::Write::kOverwrite);

/// @brief A new tensor of the products, [rows, n].
[[nodiscard]] Tensor grouped_matmul(const Tensor& a, std::span<const std::size_t> rows,
                                    std::span<const Tensor> matrices, ops::Transpose transpose);

}  // namespace ultra::expert_parallel

#pragma once
/// @file
/// A matrix product whose sums follow a SumTree.

#include <cstddef>

#include "common/ops/backend/cpu/gemm.hpp"
#include "common/ops/sums/sum_tree.hpp"

namespace ultra::ops::cpu {

/// @brief c [m, n] = op(a) [m, k] op(b) [k, n], or c += that, row-major; every element by one order.
///
/// An element depends on its row of op(a), its column of op(b) and the tree, and on nothing else: not
/// on m, n, strides, transposes, or where it stands. So a product of fewer rows or columns gives the
/// same bits (batch invariance), and products over nodes of the inner axis, joined as the tree joins,
/// give those of the whole. gemm() promises neither: BLAS chooses kernels by the shape.
/// @param tree  of the whole inner axis, of which k may be a node.
/// Memory: 16 k elements for columns of op(b).
/// Source: He and Thinking Machines Lab 2025, "Defeating Nondeterminism in LLM Inference" (batch
/// invariance); Zhang et al. 2025, arXiv 2511.17826 (one tree for any number of tensor-parallel ranks).
template <class T>
void tree_gemm(const SumTree& tree, Transpose ta, Transpose tb, std::size_t m, std::size_t n,
               std::size_t k, MatrixView<const T> a, MatrixView<const T> b, Write write,
               MatrixView<T> c);

}  // namespace ultra::ops::cpu

#pragma once
/// @file
/// Attention's backward pass on tensor cores: the formulas of attention_backward with q, k, v, o
/// and all gradients in bf16; weights and the gradients of scores are rounded to bf16 before they are
/// multiplied, all sums stay in fp32.
///
/// Source: Dao 2023, arXiv 2307.08691, algorithm 2.

#include <cstddef>

#include "kernels/ladders/attention/attention/attention.hpp"
#include "kernels/simt/config.hpp"
#include "kernels/simt/executor.hpp"
#include "kernels/simt/small_floats.cuh"

/// @brief Attention's backward pass in bf16 on tensor cores.
namespace ultra::kernels::attention_backward_bf16 {

/// @brief The gradients of o = softmax(scale q k^T) v; shapes as in attention::Problem. All rungs need a
/// head_dim that is a multiple of 8 and at most attention::kMostHeadDim.
template <typename T>
struct ProblemOf {
  /// @brief The extents, and whether it is causal.
  attention::Shape shape;
  /// @brief Queries [batch, kv_heads * group, seq_len, head_dim].
  const T* q;
  /// @brief Keys [batch, kv_heads, seq_len, head_dim].
  const T* k;
  /// @brief Values [batch, kv_heads, seq_len, head_dim].
  const T* v;
  /// @brief The forward pass's output, as q.
  const T* o;
  /// @brief The forward pass's logarithms [batch, kv_heads * group, seq_len].
  const float* lse;
  /// @brief The gradient of o, as q.
  const T* d_o;
  /// @brief Scratch, as lse.
  float* delta;
  /// @brief The gradient of q, as q, written.
  T* d_q;
  /// @brief The gradient of k, as k, written.
  T* d_k;
  /// @brief The gradient of v, as v, written.
  T* d_v;
  /// @brief Null, or what rung 1 reads in place of o, in fp32.
  const float* wide_o = nullptr;
  /// @brief Null, or what rung 1 writes in place of d_q, in fp32: for sums of parts.
  float* wide_d_q = nullptr;
  /// @brief The same of d_k.
  float* wide_d_k = nullptr;
  /// @brief The same of d_v.
  float* wide_d_v = nullptr;
};

/// @brief The same with the scratch of rung 2.
template <typename T>
struct OrderedProblemOf : ProblemOf<T> {
  /// @brief d_q_sums_of(shape) elements.
  float* d_q_sums;
  /// @brief turns_of(shape) elements.
  unsigned* turns;
};

/// @brief Of bf16; named as attention_bf16::Problem is.
struct Problem : ProblemOf<simt::bf16> {};
/// @brief Of bf16.
struct OrderedProblem : OrderedProblemOf<simt::bf16> {};

/// @brief Queries that rung 2 takes at once.
inline constexpr int kOneKernelQueries = 64;

/// @brief Tiles of queries of all heads in rung 2.
[[nodiscard]] constexpr std::size_t one_kernel_tiles(const attention::Shape& shape) {
  const int of_head = (shape.seq_len + kOneKernelQueries - 1) / kOneKernelQueries;
  return static_cast<std::size_t>(shape.heads()) * static_cast<std::size_t>(of_head);
}

/// @brief Elements of OrderedProblem::d_q_sums: a tile has rows of 64 or 128.
[[nodiscard]] constexpr std::size_t d_q_sums_of(const attention::Shape& shape) {
  return one_kernel_tiles(shape) * std::size_t{kOneKernelQueries} *
         (shape.head_dim <= 64 ? std::size_t{64} : std::size_t{128});
}

/// @brief Elements of OrderedProblem::turns: a number of the next block, and whose turn each tile has.
[[nodiscard]] constexpr std::size_t turns_of(const attention::Shape& shape) {
  return 1 + one_kernel_tiles(shape);
}

/// @brief Rung 1: a kernel for keys, one for queries; weights and gradients of scores stay in registers.
template <simt::Executor executor>
void tensor_cores(const Problem& problem, const simt::Queue& queue);

/// @brief The same of half.
template <simt::Executor executor>
void tensor_cores_f16(const ProblemOf<simt::half>& problem, const simt::Queue& queue);

/// @brief Rung 2: one kernel with wgmma that makes all five products once; d_q is summed over blocks in a
/// fixed order. For Hopper alone (hopper/). Source: Shah et al. 2024,
/// FlashAttention-3, arXiv 2407.08608.
template <simt::Executor executor>
void one_kernel(const OrderedProblem& problem, const simt::Queue& queue);

/// @brief The same of half.
template <simt::Executor executor>
void one_kernel_f16(const OrderedProblemOf<simt::half>& problem, const simt::Queue& queue);

}  // namespace ultra::kernels::attention_backward_bf16

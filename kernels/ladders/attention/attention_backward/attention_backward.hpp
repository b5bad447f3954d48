#pragma once
/// @file
/// The ladder of attention's backward pass in fp32 on CUDA cores: the gradients of q, k and v from that
/// of o, with the matrix of weights computed again instead of stored.
///
/// With p_ij = exp(score_ij - lse_i), which the forward pass's lse makes possible without a second
/// softmax, and delta_i = do_i . o_i:
///
///     dv_j = sum over i of p_ij do_i        ds_ij = p_ij (do_i . v_j - delta_i)
///     dk_j = scale sum over i of ds_ij q_i  dq_i = scale sum over j of ds_ij k_j
///
/// where sums over i include all heads that share key j. Source: Dao et al. 2022, arXiv 2205.14135,
/// appendix B; Dao 2023, arXiv 2307.08691, algorithm 2.

#include "kernels/ladders/attention/attention/attention.hpp"
#include "kernels/simt/config.hpp"
#include "kernels/simt/executor.hpp"

/// @brief Attention's backward pass in fp32 on CUDA cores.
namespace ultra::kernels::attention_backward {

/// @brief The gradients of o = softmax(scale q k^T) v; shapes as in attention::Problem. All rungs need a
/// head_dim that is a multiple of 4 and at most attention::kMostHeadDim.
struct Problem {
  /// @brief The extents, and whether it is causal.
  attention::Shape shape;
  /// @brief Queries [batch, kv_heads * group, seq_len, head_dim].
  const float* q;
  /// @brief Keys [batch, kv_heads, seq_len, head_dim].
  const float* k;
  /// @brief Values [batch, kv_heads, seq_len, head_dim].
  const float* v;
  /// @brief The forward pass's output, as q.
  const float* o;
  /// @brief The forward pass's logarithms [batch, kv_heads * group, seq_len].
  const float* lse;
  /// @brief The gradient of o, as q.
  const float* d_o;
  /// @brief Scratch, as lse.
  float* delta;
  /// @brief The gradient of q, as q, written.
  float* d_q;
  /// @brief The gradient of k, as k, written.
  float* d_k;
  /// @brief The gradient of v, as v, written.
  float* d_v;
};

/// @brief Rung 1: a block per tile of keys, which adds its part of dq atomically.
template <simt::Executor executor>
void atomics(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 2: dq has a kernel of its own, a block per tile of queries; no atomics, the same result
/// every time.
template <simt::Executor executor>
void split(const Problem& problem, const simt::Queue& queue);

}  // namespace ultra::kernels::attention_backward

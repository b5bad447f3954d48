#pragma once
/// @file
/// The ladder of attention's forward pass in fp32 on CUDA cores: o = softmax(scale q k^T) v, from three
/// kernels with the matrix of scores in memory to one that keeps it on the chip.
///
/// Grouped-query attention (Ainslie et al. 2023, arXiv 2305.13245): `group` heads of queries share one
/// head of keys and values. Legend of all rungs: S is the sequence length, D the head dimension; a row
/// is one query of one head; i counts queries, j keys.

#include <cstddef>

#include "kernels/simt/config.hpp"
#include "kernels/simt/executor.hpp"

/// @brief Attention's forward pass in fp32 on CUDA cores.
namespace ultra::kernels::attention {

/// @brief What all kernels of attention need to know of a problem's shape.
struct Shape {
  /// @brief Sequences.
  int batch;
  /// @brief Heads of keys and values of each sequence.
  int kv_heads;
  /// @brief Heads of queries that share a head of keys and values: 1 is multi-head attention.
  int group;
  /// @brief S: queries of each head, and keys.
  int seq_len;
  /// @brief D: elements of a query, of a key and of a value.
  int head_dim;
  /// @brief Whether query i sees the keys up to i only, as a language model's do; else all.
  bool causal;
  /// @brief What scores are multiplied by: 1 / sqrt(D).
  float scale;
  /// @brief Whether tensors are [batch, seq_len, heads, head_dim], as a model's layers have them, instead of
  /// [batch, heads, seq_len, head_dim]. The rungs that training takes in bf16 can do both, but for
  /// attention_backward_varlen's; that one and all others can do the latter.
  bool tokens_first = false;

  /// @brief Heads of queries over all sequences.
  [[nodiscard]] constexpr int heads() const { return batch * kv_heads * group; }
  /// @brief Rows over all heads.
  [[nodiscard]] constexpr std::size_t rows() const {
    return static_cast<std::size_t>(heads()) * static_cast<std::size_t>(seq_len);
  }
};

/// @brief o = softmax(scale q k^T) v for every head, and the logarithms of the softmax's denominators.
struct Problem {
  /// @brief The extents, and whether it is causal.
  Shape shape;
  /// @brief Queries [batch, kv_heads * group, seq_len, head_dim].
  const float* q;
  /// @brief Keys [batch, kv_heads, seq_len, head_dim].
  const float* k;
  /// @brief Values [batch, kv_heads, seq_len, head_dim].
  const float* v;
  /// @brief Scratch [batch, kv_heads * group, seq_len, seq_len], for the rungs that keep the matrix in
  /// memory; may be null for the others.
  float* scores;
  /// @brief [batch, kv_heads * group, seq_len, head_dim], written.
  float* o;
  /// @brief [batch, kv_heads * group, seq_len], written: log(sum over j of exp(score_ij)), which the
  /// backward pass needs.
  float* lse;
};

/// @brief The largest head dimension of the rungs that hold a row in registers.
inline constexpr int kMostHeadDim = 128;

/// @brief Rung 1: scores, softmax and output, a kernel each; the S x S matrix goes through memory.
template <simt::Executor executor>
void naive(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 2: the softmax's sums are taken with the scores, and what is masked is neither computed
/// nor stored.
template <simt::Executor executor>
void fused(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 3: one warp per row, online softmax, no matrix in memory. head_dim <= kMostHeadDim.
/// Source: Milakov and Gimelshein 2018, arXiv 1805.02867.
template <simt::Executor executor>
void online(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 4: a block shares tiles of keys and values among 64 rows. head_dim is a multiple of 4, at
/// most kMostHeadDim. Exercise 09.8.
/// Source: Dao et al. 2022, arXiv 2205.14135, algorithm 1; Dao 2023, arXiv 2307.08691, section 3.1.
template <simt::Executor executor>
void flash_forward(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 5: no tile above the diagonal, powers of 2 instead of e, long rows first. head_dim as for
/// rung 4.
template <simt::Executor executor>
void flash_causal(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 6: tiles of 128 rows, made of the heads that share keys and values. head_dim as for
/// rung 4.
template <simt::Executor executor>
void flash_grouped(const Problem& problem, const simt::Queue& queue);

}  // namespace ultra::kernels::attention

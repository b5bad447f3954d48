#pragma once
/// @file
/// The ladder of attention while decoding: one query for each sequence, against all keys and values
/// that the sequence has so far. These lie in pages of kPage tokens, wherever there was room, and a
/// table says where.
///
/// Sources: Kwon et al. 2023, "Efficient memory management for large language model serving with
/// PagedAttention", arXiv 2309.06180; Dao et al. 2023, "Flash-Decoding for long-context inference".

#include "kernels/simt/config.hpp"
#include "kernels/simt/executor.hpp"
#include "kernels/simt/small_floats.cuh"

/// @brief Attention of one query for each sequence.
namespace ultra::kernels::attention_decode {

/// @brief Tokens of a page.
inline constexpr int kPage = 16;
/// @brief Keys of a part, for the rungs that divide sequences among blocks.
inline constexpr int kPart = 256;
/// @brief The largest head dimension.
inline constexpr int kMostHeadDim = 128;
/// @brief The most heads of queries that share a head of keys and values.
inline constexpr int kMostGroup = 8;

/// @brief o = softmax(scale q k^T) v for each sequence and head. `group` heads of queries share one
/// of keys and values.
struct Problem {
  /// @brief Sequences.
  int batch;
  /// @brief Heads of keys and values.
  int kv_heads;
  /// @brief Heads of queries for each of them, at most kMostGroup.
  int group;
  /// @brief Elements of a row: a multiple of 8, at most kMostHeadDim.
  int head_dim;
  /// @brief Tokens of the longest sequence.
  int most_tokens;
  /// @brief [batch]: tokens of each, at least 1.
  const int* lengths;
  /// @brief [batch, pages_of(most_tokens)]: where page p of a sequence is in k and v.
  const int* pages;
  /// @brief [batch, kv_heads * group, head_dim].
  const simt::bf16* q;
  /// @brief [pages, kv_heads, kPage, head_dim].
  const simt::bf16* k;
  /// @brief As k.
  const simt::bf16* v;
  /// @brief As q, written.
  simt::bf16* o;
  /// @brief Scratch of rung 3 [batch, kv_heads * group, parts_of(most_tokens), head_dim]: each
  /// part's own attention.
  float* part_o;
  /// @brief Scratch of rung 3 [batch, kv_heads * group, parts_of(most_tokens)]: each part's own
  /// logarithm of the sum of its exponentials.
  float* part_lse;
};

/// @brief Pages of so many tokens.
constexpr int pages_of(int tokens) { return (tokens + kPage - 1) / kPage; }
/// @brief Parts of so many tokens.
constexpr int parts_of(int tokens) { return (tokens + kPart - 1) / kPart; }

/// @brief Rung 1: a block for each head of queries.
template <simt::Executor executor>
void block_per_head(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 2: a block for all heads of queries that share keys and values.
template <simt::Executor executor>
void grouped(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 3: a block for each part of a sequence, and a kernel that puts the parts together.
/// Exercise 09.9.
template <simt::Executor executor>
void split(const Problem& problem, const simt::Queue& queue);

}  // namespace ultra::kernels::attention_decode

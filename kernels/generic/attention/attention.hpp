#pragma once
/// @file
/// Attention and its gradients, with any positions and packed documents.

#include <cstdint>

#include "kernels/generic/attention/positions.hpp"
#include "kernels/generic/elements/sums.hpp"
#include "kernels/generic/numbers.hpp"

namespace ultra::kernels::generic {

/// @brief Sizes of an attention, and which keys a query sees.
struct AttentionShape {
  /// @brief Sequences.
  int batch;
  /// @brief Queries of a sequence.
  int query_seq;
  /// @brief Keys of a sequence.
  int key_seq;
  /// @brief Heads of the queries.
  int heads;
  /// @brief Heads of the keys and values; divides heads.
  int kv_heads;
  /// @brief Elements of a head.
  int head_dim;
  /// @brief Factor on the scores.
  double scale;
  /// @brief Whether a query sees only keys at most at its own position.
  bool is_causal;
  /// @brief Of the queries.
  Positions query_positions;
  /// @brief Of the keys.
  Positions key_positions;
  /// @brief [batch, query_seq] the position of the first key that a query sees, ascending in each
  /// sequence; null for all from the first on.
  const std::int32_t* first_seen;
};

/// @brief Operands of attention; contiguous. What is wide is f64 with f64, else f32.
struct Attention {
  /// @brief Sizes and mask.
  AttentionShape shape;
  /// @brief [batch, query_seq, heads, head_dim].
  Source query;
  /// @brief [batch, key_seq, kv_heads, head_dim], of the query's type.
  Source key;
  /// @brief [batch, key_seq, kv_heads, head_dim], of the query's type.
  Source value;
  /// @brief [batch, query_seq, heads, head_dim], written; of the query's type or wide. 0 where a
  /// query sees no key.
  Target output;
  /// @brief [batch, heads, query_seq], wide, written; minus infinity where a query sees no key.
  Target log_sum_exp;
};

/// @brief softmax(scale Q K^T + mask) V. Source: Dao et al. 2022, arXiv 2205.14135, alg. 1.
/// @throws SimtError (Fault::kLaunch) for a head of more elements than a block's shared memory holds.
template <simt::Executor executor>
void attention(const Attention& operands, const simt::Queue& queue);

/// @brief Operands of attention's gradients; contiguous.
struct AttentionBackward {
  /// @brief Sizes and mask.
  AttentionShape shape;
  /// @brief [batch, query_seq, heads, head_dim]; of the query's type or wide.
  Source d_output;
  /// @brief [batch, query_seq, heads, head_dim].
  Source query;
  /// @brief [batch, key_seq, kv_heads, head_dim], of the query's type.
  Source key;
  /// @brief [batch, key_seq, kv_heads, head_dim], of the query's type.
  Source value;
  /// @brief [batch, query_seq, heads, head_dim], over all keys; of the query's type or wide.
  Source output;
  /// @brief [batch, heads, query_seq], wide, over all keys.
  Source log_sum_exp;
  /// @brief [batch, query_seq, heads, head_dim], written; of the query's type or wide.
  Target d_query;
  /// @brief [batch, key_seq, kv_heads, head_dim], written; of the query's type or wide.
  Target d_key;
  /// @brief [batch, key_seq, kv_heads, head_dim], written; of the query's type or wide.
  Target d_value;
  /// @brief [batch, heads, query_seq] of scratch, wide.
  Target delta;
  /// @brief Queries of a leaf of the tree that gradients of keys and values follow; in a leaf the heads that
  /// share a key come one after the other.
  std::size_t leaf = kOneLeaf;
  /// @brief [levels of that tree, 2, batch, key_seq, kv_heads, head_dim] of scratch, wide; null for one leaf.
  void* nodes = nullptr;
};

/// @brief Gradients of attention. Source: Dao et al. 2022, arXiv 2205.14135, alg. 4.
/// @throws SimtError (Fault::kLaunch) for a head of more elements than a block's shared memory holds.
template <simt::Executor executor>
void attention_backward(const AttentionBackward& operands, const simt::Queue& queue);

}  // namespace ultra::kernels::generic

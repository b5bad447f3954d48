#pragma once
/// @file
/// Attention whose sums follow trees, of which a rank may have a node of the queries.

#include "common/ops/backend/cpu/kernels.hpp"

namespace ultra::ops::cpu {

/// @brief See ops::attention. A query's output depends on what it sees and on nothing else: not on which
/// queries stand beside it.
///
/// Its sums over keys are trees over their places, from the first key on, seen or not: what is hidden
/// counts as 0. The softmax shifts by the highest of all scores, which no order changes, so no part
/// of a sum is ever scaled again.
/// Memory: scores of 64 queries with all keys, where cpu::attention() has those of a block.
template <class T>
void tree_attention(const AttentionOperands<T>& in, const Device& device, T* output,
                    T* log_sum_exp);

/// @brief See ops::attention_backward.
///
/// Gradients of keys and values are sums over queries: each leaf of the queries' SumTree adds up the heads
/// that share the key, one after the other, and the tree joins the leaves. So ranks that each have a node
/// of the queries, and all keys, have nodes of these sums.
/// Memory: gradients of one head's keys and values for each level of the tree.
template <class T>
void tree_attention_backward(const AttentionOperands<T>& in, const Device& device,
                             const T* d_output, const T* output, const T* log_sum_exp, T* d_query,
                             T* d_key, T* d_value);

}  // namespace ultra::ops::cpu

#pragma once
/// @file
/// Attention over two sets of keys, merged into attention over both.
///
/// Softmax over keys A and B needs the sum of exponentials over both. Each part has divided by its own
/// sum, and kept the logarithm of that. With these logarithms any number of parts can be merged
/// exactly, in any order.
///
/// Exercise 06.1 (`./workbook check 06.1`).
/// Body: solutions/06_context_parallel/merge_attention.cpp.
/// Source: Liu et al. 2023, "Ring Attention with Blockwise Transformers", arXiv 2310.01889, section 3.1;
/// Milakov & Gimelshein 2018, arXiv 1805.02867 (the running maximum).

#include "common/ops/attention.hpp"

namespace ultra::context_parallel {

/// @brief Adds attention over other keys to attention over some.
/// @param into  output [batch, seq, heads, head_dim] and log_sum_exp [batch, heads, seq], contiguous; a
/// query that has seen no key has output 0 and log_sum_exp -infinity. Changed in place.
/// @param part  attention of the same queries over keys that `into` does not have; a query may have
/// seen none.
/// Cost: a multiplication and an addition per element of the output.   Memory: none.
void merge_attention(const ops::AttentionResult& into, const ops::AttentionResult& part);

}  // namespace ultra::context_parallel

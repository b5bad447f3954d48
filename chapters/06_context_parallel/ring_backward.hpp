#pragma once
/// @file
/// Ring attention, backward: keys and values travel once more, and their gradients follow them.
///
/// No rank has kept what it received in the forward pass. So keys and values pass by again, and with
/// each of them goes the sum of the gradients that the ranks before have added.
///
/// Exercise 06.4 (`./workbook check 06.4`). Body: solutions/06_context_parallel/ring_backward.cpp.
/// Source: Liu, Zaharia & Abbeel 2023, "Ring Attention", arXiv 2310.01889, algorithm 1 and appendix A.

#include "chapters/06_context_parallel/block_attention.hpp"
#include "chapters/06_context_parallel/sequence_group.hpp"

namespace ultra::context_parallel {

/// @brief Gradients of this rank's queries, keys and values.
/// @param queries   of this rank: adds gradients that come from keys.
/// @param d_output  [batch, seq, heads, head_dim], of this rank's output.
/// @param whole     what ring_forward() returned.
/// @param own       this rank's keys and values.
/// @return  of keys and values in their own type, in which the sums travel (for one step in f32 where that
///          is bf16 or f16); of queries in f32 where they are bf16 or f16.
/// Collective over ring.ranks.
/// Cost: messages of n = 2 batch seq kv_heads head_dim elements: keys and values pass as in ring_forward(),
/// and the sums of their gradients until they are at home (none for one step). Both travel while a block is
/// computed.
/// Memory: six arrays of n elements besides its own: two with keys and values, and four with
/// gradients, of which one message keeps two until the next one begins.
[[nodiscard]] nn::QkvGradients ring_backward(const BlockAttention& queries, const Tensor& d_output,
                                             const PartialAttention& whole, const KeyValues& own,
                                             const SequenceGroup& ring);

}  // namespace ultra::context_parallel

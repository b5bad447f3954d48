#pragma once
/// @file
/// Ring attention, forward: keys and values travel from rank to rank while queries stay.
///
/// Each of N ranks has a part of every sequence. In N steps the keys and values of all ranks pass by;
/// a rank attends its queries to those that are here while the next ones arrive, and merges.
///
/// Exercise 06.3 (`./workbook check 06.3`). Body: solutions/06_context_parallel/ring_forward.cpp.
/// Source: Liu, Zaharia & Abbeel 2023, "Ring Attention with Blockwise Transformers for Near-Infinite
/// Context", arXiv 2310.01889, algorithm 1.

#include "chapters/06_context_parallel/block_attention.hpp"
#include "chapters/06_context_parallel/sequence_group.hpp"

namespace ultra::context_parallel {

/// @brief Attention of this rank's queries to the keys of all ranks of a ring.
/// @param queries  of this rank: attends to keys, and merges.
/// @param own      this rank's keys and values, contiguous; [batch, seq, kv_heads, head_dim] each.
/// Collective over ring.ranks.
/// Cost: S - 1 messages per rank in S steps, N where no window leaves some of them empty
/// (queries.steps_of()), each of n = 2 batch seq kv_heads head_dim elements: keys and values in one; half
/// as many elements where values are the keys (nn::LatentAttention, absorbed).
/// Each travels while the block before it is computed.
/// Memory: two such arrays besides its own; none is left at the end.
[[nodiscard]] PartialAttention ring_forward(const BlockAttention& queries, const KeyValues& own,
                                            const SequenceGroup& ring);

}  // namespace ultra::context_parallel

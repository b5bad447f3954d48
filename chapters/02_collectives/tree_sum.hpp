#pragma once
/// @file
/// One order for a sum, however many ranks have its terms: a tree whose upper levels are the exchange.
///
/// Exercise 02.8 (`./workbook check 02.8`). Body: solutions/02_collectives/tree_sum.cpp.

#include <cstddef>
#include <span>
#include <vector>

namespace ultra::collectives {

/// @brief One addition: node `into` becomes its sum with node `from`, which is not used again.
struct Join {
  std::size_t into;  ///< the node that becomes the sum
  std::size_t from;  ///< the node that is added to it

  bool operator==(const Join&) const = default;
};

/// @brief How neighbours are joined until node 0 is the sum of all: first 0 with 1, 2 with 3, 4 with 5,
/// then neighbouring pairs, and so on. What has no neighbour goes up as it is.
///
/// Nodes are the blocks of an axis, or the parts of ranks: whoever has 1, 2, 4, 8, ... whole blocks and
/// begins at a multiple of as many, joins these alone, and the joins of what they come to are the rest.
/// @param nodes  at least 1.
/// @return nodes - 1 joins, in an order in which they can be made: ceil(log2 nodes) rounds.
/// Source: Zhang et al. 2025, "Deterministic Inference across Tensor Parallel Sizes That Eliminates
/// Training-Inference Mismatch", arXiv 2511.17826 (one binary tree within and across GPUs).
[[nodiscard]] std::vector<Join> tree_joins(std::size_t nodes);

/// @brief The sum of an axis, or of the part of it that a rank has: blocks of one length, each added from
/// its first term to its last, joined by tree_joins.
/// @param terms  [n], n >= 1.
/// @param block  terms of a block, of which the last may have fewer: the same on all ranks, however many
///               terms they have.
[[nodiscard]] float tree_sum(std::span<const float> terms, std::size_t block);

}  // namespace ultra::collectives

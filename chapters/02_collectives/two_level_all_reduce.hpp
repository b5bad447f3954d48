#pragma once
/// @file
/// All-reduce for ranks that share nodes: as little as possible crosses the network between nodes.
///
/// Exercise 02.6 (`./workbook check 02.6`).
/// Body: solutions/02_collectives/two_level_all_reduce.cpp.

#include "common/comm/collectives/schedule.hpp"

namespace ultra::collectives {

/// @brief All-reduce of `range` in three parts: reduce-scatter inside each node, all-reduce of the
/// own chunk across nodes, all-gather inside each node; each part on a ring.
///
/// Positions [k L, (k + 1) L) share node k, L = ranks_per_node. Inside a node the range is cut into
/// L chunks, Chunks::even(range, L). The members at the same place of every node then form a ring of
/// P/L, on which they reduce the one chunk that is theirs, cut once more.
/// @param ranks_per_node  L; divides group.size().
/// @throws ConfigError when L < 1 or L does not divide group.size().
/// Cost: 2 (L-1) + 2 (P/L - 1) steps; 2 n (L-1)/L elements sent inside the node and
/// 2 n (P/L - 1)/P between nodes per rank, for equal chunks.
/// Source: Mikami et al. 2018, "Massively distributed SGD: ImageNet/ResNet-50 training in a flash",
/// arXiv 1811.05233 (2D-torus all-reduce), with nodes as the rows.
[[nodiscard]] comm::Lane two_level_all_reduce(const comm::Group& group, Range range,
                                              int ranks_per_node);

}  // namespace ultra::collectives

#pragma once
/// @file
/// All-gather and reduce-scatter for ranks that share nodes: the two halves of chapter 02's
/// two-level all-reduce, each by itself.

#include "common/comm/collectives/schedule.hpp"

namespace ultra::tensor_parallel {

/// @brief Which part of a range a position has before a two-level all-gather, or after a two-level
/// reduce-scatter.
///
/// The range is cut into L = ranks_per_node chunks, one for each place in a node, and each chunk
/// into one piece per node: the position at place l of node n has piece n of chunk l. So the parts
/// are not in the order of the positions, which a rank's part of a sequence need not be, either.
/// @throws ConfigError when L < 1 or L does not divide group.size().
[[nodiscard]] Range two_level_part(const comm::Group& group, Range range, int ranks_per_node);

/// @brief All-gather across nodes among ranks at the same place, then inside each node; both on
/// rings.
///
/// A piece crosses each border between nodes once, through the NICs of all places at once.
/// @throws ConfigError as two_level_part().
/// Cost: (P/L - 1) + (L - 1) steps; n (P/L - 1)/P elements sent between nodes and n (L-1)/L inside
/// the node per rank, for equal chunks.
[[nodiscard]] comm::Lane two_level_all_gather(const comm::Group& group, Range range,
                                              int ranks_per_node);

/// @brief Reduce-scatter inside each node, then across nodes among ranks at the same place.
/// @throws ConfigError as two_level_part().
/// Cost: as two_level_all_gather().
[[nodiscard]] comm::Lane two_level_reduce_scatter(const comm::Group& group, Range range,
                                                  int ranks_per_node);

}  // namespace ultra::tensor_parallel

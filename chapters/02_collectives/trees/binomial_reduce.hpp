#pragma once
/// @file
/// Reduce up a binomial tree, and the all-reduce that follows from it.

#include "common/comm/collectives/schedule.hpp"

namespace ultra::collectives {

/// @brief Position `root` ends with the reduction of all `range`; the others end with partial
/// results. The binomial broadcast backwards: what was sent is received and combined.
/// @param root  a position of the group.
/// Cost: ceil(log2 P) rounds; n elements sent per rank, none by the root.
/// Source: Thakur, Rabenseifner, Gropp 2005, "Optimization of collective communication operations
/// in MPICH".
[[nodiscard]] comm::Lane binomial_reduce(const comm::Group& group, Range range, int root);

/// @brief All-reduce: binomial_reduce to position 0, then binomial_broadcast from there.
///
/// Cost: 2 ceil(log2 P) rounds; up to n ceil(log2 P) elements sent by position 0: for small n.
[[nodiscard]] comm::Lane binomial_all_reduce(const comm::Group& group, Range range);

}  // namespace ultra::collectives

#pragma once
/// @file
/// Broadcast down a binomial tree.
///
/// Exercise 02.5 (`./workbook check 02.5`). Body: solutions/02_collectives/binomial_broadcast.cpp.

#include "common/comm/collectives/schedule.hpp"

namespace ultra::collectives {

/// @brief The elements of `range` at position `root` reach everybody, for any group size.
///
/// Every round doubles the number of positions that have the data: whoever has it sends it on to one
/// that has not.
/// @param root  a position of the group.
/// Cost: ceil(log2 P) rounds; the root sends n ceil(log2 P) elements, nobody more.
/// Source: Thakur, Rabenseifner, Gropp 2005, "Optimization of collective communication operations
/// in MPICH".
[[nodiscard]] comm::Lane binomial_broadcast(const comm::Group& group, Range range, int root);

}  // namespace ultra::collectives

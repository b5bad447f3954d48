#pragma once
/// @file
/// Reduce-scatter on a ring.
///
/// Exercise 02.1 (`./workbook check 02.1`). Words of this chapter: the data are cut into one *chunk*
/// per member of the group; P is the number of members, n the number of elements.

#include "common/comm/collectives/schedule.hpp"

/// @brief Chapter 02: collective operations, written as the steps that each rank takes.
namespace ultra::collectives {

/// @brief Every member holds a contribution to all chunks; position i ends with chunk i reduced.
///
/// In place: the other chunks end with partial results. Each step sends one chunk to the next
/// position and combines the chunk that comes from the one before.
/// @pre chunks.size() == group.size().
/// Cost: P - 1 steps; n - (own chunk) elements sent per rank, n (P-1)/P for equal chunks.
/// Source: Patarasuk & Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of
/// workstations".
[[nodiscard]] comm::Lane ring_reduce_scatter(const comm::Group& group, const comm::Chunks& chunks);

}  // namespace ultra::collectives

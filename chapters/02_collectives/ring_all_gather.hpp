#pragma once
/// @file
/// All-gather on a ring.
///
/// Exercise 02.2 (`./workbook check 02.2`). Body: solutions/02_collectives/ring_all_gather.cpp.

#include "common/comm/collectives/schedule.hpp"

namespace ultra::collectives {

/// @brief Position i holds chunk i; all end with all chunks.
///
/// Each step passes on, to the next position, the chunk that the step before it has brought.
/// @pre chunks.size() == group.size().
/// Cost: P - 1 steps; n - (the next position's chunk) elements sent per rank, n (P-1)/P for equal
/// chunks.
/// Source: Patarasuk & Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of
/// workstations".
[[nodiscard]] comm::Lane ring_all_gather(const comm::Group& group, const comm::Chunks& chunks);

}  // namespace ultra::collectives

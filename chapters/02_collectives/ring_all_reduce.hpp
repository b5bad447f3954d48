#pragma once
/// @file
/// All-reduce on a ring.
///
/// Exercise 02.3 (`./workbook check 02.3`). Body: solutions/02_collectives/ring_all_reduce.cpp.

#include "common/comm/collectives/schedule.hpp"

namespace ultra::collectives {

/// @brief All end with the reduction of all chunks: a reduce-scatter, then an all-gather.
///
/// Every chunk is reduced at one place and copied from there: all members end with the same bits.
/// @pre chunks.size() == group.size().
/// Cost: 2 (P-1) steps, 2 n (P-1)/P elements sent per rank: the least that the busiest rank of an
/// all-reduce can do with, and almost independent of P.
/// Source: Patarasuk & Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of
/// workstations".
[[nodiscard]] comm::Lane ring_all_reduce(const comm::Group& group, const comm::Chunks& chunks);

}  // namespace ultra::collectives

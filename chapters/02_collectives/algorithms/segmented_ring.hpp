#pragma once
/// @file
/// Ring all-reduce in segments, so that combining and sending overlap.

#include "common/comm/collectives/schedule.hpp"

namespace ultra::collectives {

/// @brief Ring all-reduce whose chunks are cut into segments that travel one behind the other.
///
/// In a plain ring the link rests while a chunk is being combined. Here the segments of every chunk
/// are dealt to two lanes: while one lane combines the segment that has arrived, the other's is on
/// the link. Inside a lane, all segments of a chunk take a step before any of them takes the next:
/// the segment that a step sends arrived as many steps ago as the lane has segments.
/// @param segments  per chunk; 1 is the plain ring, on one lane.
/// @throws ConfigError when segments < 1.
/// Cost: 2 (P-1) `segments` messages on two lanes; 2 n (P-1)/P elements sent per rank.
/// Source: Patarasuk & Yuan 2009, for the ring; two lanes are the usual double buffering.
[[nodiscard]] comm::Schedule segmented_ring_all_reduce(const comm::Group& group, Range range,
                                                       int segments);

}  // namespace ultra::collectives

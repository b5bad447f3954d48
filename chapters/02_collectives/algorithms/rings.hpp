#pragma once
/// @file
/// All-reduces of rings: in segments, so that combining and sending overlap; and on machines whose
/// ranks form a grid.

#include <span>

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

/// @brief All-reduce on a torus of any dimension: reduce-scatter along the last dimension,
/// all-reduce of its own chunk in the torus of the others, all-gather along the last.
///
/// Position p has the coordinates of row-major order: the last one changes fastest. In two
/// dimensions: reduce-scatter in the row, all-reduce in the column, all-gather in the row.
/// @param extents  members along each dimension; their product is group.size().
/// @throws ConfigError when it is not, or when an extent is below 1.
/// Cost: 2 sum_d (extent_d - 1) steps; 2 n (P-1)/P elements sent per rank for equal chunks, as on
/// one ring, of which only 1/extent_last ever leaves the last dimension.
/// Source: Mikami et al. 2018, "Massively distributed SGD: ImageNet/ResNet-50 training in a flash",
/// arXiv 1811.05233, for two dimensions.
[[nodiscard]] comm::Lane torus_all_reduce(const comm::Group& group, Range range,
                                          std::span<const int> extents);

/// @brief All-reduce on a two-dimensional mesh: a ring all-reduce in every row, then one in every
/// column, both of the whole range.
///
/// Simpler than the torus, with almost twice its volume.
/// @param rows, columns  rows * columns == group.size(); position = row * columns + column.
/// @throws ConfigError when it is not, or when one is below 1.
/// Cost: 2 (rows - 1) + 2 (columns - 1) steps; 2 n ((rows-1)/rows + (columns-1)/columns) elements
/// sent per rank for equal chunks.
[[nodiscard]] comm::Lane mesh_all_reduce(const comm::Group& group, Range range, int rows,
                                         int columns);

}  // namespace ultra::collectives

#pragma once
/// @file
/// What the ring costs: messages, bytes and seconds of its three collectives, by closed form.
///
/// Exercise 02.7 (`./workbook check 02.7`). Legend: N ranks, S = count * element_bytes bytes in
/// all, C bytes of the largest of N even chunks; alpha, beta and gamma as in LinkCost.

#include <cstddef>

#include "chapters/02_collectives/simulator/link_cost.hpp"

namespace ultra::collectives {

/// @brief What a ring collective takes from each rank.
struct RingCost {
  std::size_t messages = 0;     ///< that each rank sends, one after the other
  std::size_t chunk_bytes = 0;  ///< C, bytes of the largest message
  double sent_bytes = 0.0;      ///< that a rank sends, averaged over the ranks: exact for any count
  double seconds = 0.0;         ///< until the last rank has ended

  bool operator==(const RingCost&) const = default;
};

/// @brief Reduce-scatter: each chunk travels around the ring and is reduced at every stop.
///
/// The time is exact for counts that do not divide, too: all chunks are on their way at once, and
/// the last to arrive is one of the longest. An empty chunk is still a message: it pays alpha.
/// @param ranks          N, at least 1.
/// @param count          elements of the whole array, cut into chunks that differ by at most one.
/// @param element_bytes  bytes of one element.
/// @param link           the same between all neighbours.
/// Source: Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of
/// workstations"; Thakur, Rabenseifner and Gropp 2005.
[[nodiscard]] RingCost ring_reduce_scatter_cost(int ranks, std::size_t count,
                                                std::size_t element_bytes, const LinkCost& link);

/// @brief All-gather: each chunk travels around the ring and is stored at every stop.
///
/// Parameters as for ring_reduce_scatter_cost().
[[nodiscard]] RingCost ring_all_gather_cost(int ranks, std::size_t count, std::size_t element_bytes,
                                            const LinkCost& link);

/// @brief All-reduce: the reduce-scatter, then the all-gather.
///
/// A rank sends less than 2 S bytes however many ranks there are.
/// Parameters as for ring_reduce_scatter_cost().
[[nodiscard]] RingCost ring_all_reduce_cost(int ranks, std::size_t count, std::size_t element_bytes,
                                            const LinkCost& link);

}  // namespace ultra::collectives

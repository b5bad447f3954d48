#pragma once
/// @file
/// Pairwise reduce-scatter and all-reduce: sums whose order does not depend on where an element is.
///
/// A ring adds the contributions to a chunk in the order in which the chunk travels, so the last bits
/// of a sum of floats depend on how the array is cut. Here every element of every array is
/// ((x_0 + x_1) + x_2) + ... + x_{P-1}, x_i being the contribution of position i, or the sum of a tree
/// over the positions. Hence an array reduced whole, in buckets of any sizes, parameter by parameter,
/// or by reduce_scatter gives the same bits.
///
/// Nothing travels but contributions. So numbers of two bytes can be added up in f32 and rounded once,
/// however many ranks there are, in the order of the ranks; a tree rounds them where it joins. An
/// algorithm whose messages are partial sums rounds once per hop, or needs messages of four bytes.

#include "common/comm/collectives/schedule.hpp"

namespace ultra::collectives {

/// @brief In which order contributions are added, wherever an element is; x_i is that of position i.
enum class SumOrder {
  kRanks,  ///< ((x_0 + x_1) + x_2) + ... + x_{P-1}
  /// (x_0 + x_1) + (x_2 + x_3), ...: neighbours, then neighbouring pairs, and so on: the upper levels
  /// of an ops::SumTree of which each position has a node. Numbers of two bytes are rounded up to
  /// ceil(log2 P) times.
  kTree
};

/// @brief Every member holds a contribution to all chunks; position i ends with chunk i reduced, in
/// the order that is asked for.
///
/// In step s each position sends the chunk of the one s further straight to it, and receives a
/// contribution to its own chunk from the one s back. It adds nothing until it has all of them. In
/// place: the other chunks end with anything.
/// @pre chunks.size() == group.size().
/// Cost: P - 1 steps; n - (own chunk) elements sent per rank, n (P-1)/P for equal chunks: as on a
/// ring, but to P - 1 different ranks: slower where those share links.
/// Memory: a contribution waits in elements of the data that were sent already, in scratch memory
/// where these do not suffice: 1 chunk for equal chunks, 2 or 3 where sizes differ by one, and up to
/// P - 1 for very uneven ones.
/// Source: Thakur, Rabenseifner, Gropp 2005, "Optimization of collective communication operations
/// in MPICH" (pairwise exchange).
/// Deviation: the paper adds each contribution when it arrives, which takes one chunk of scratch
/// memory whatever the counts, but adds in another order at every position.
[[nodiscard]] comm::Schedule pairwise_reduce_scatter(const comm::Group& group,
                                                     const comm::Chunks& chunks,
                                                     SumOrder order = SumOrder::kRanks);

/// @brief All end with the reduction of all chunks, in the order that is asked for:
/// pairwise_reduce_scatter, then ring_all_gather.
/// @pre chunks.size() == group.size().
/// Cost: 2 (P-1) steps; 2 n (P-1)/P elements sent per rank for equal chunks.
/// Memory: as pairwise_reduce_scatter.
[[nodiscard]] comm::Schedule pairwise_all_reduce(const comm::Group& group,
                                                 const comm::Chunks& chunks,
                                                 SumOrder order = SumOrder::kRanks);

}  // namespace ultra::collectives

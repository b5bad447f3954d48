#pragma once
/// @file
/// Collectives with a root: up and down a binomial tree, without a tree, and for large messages, of which no
/// rank sends the whole more than about twice.

#include "common/comm/collectives/schedule.hpp"

namespace ultra::collectives {

/// @brief Each member holds its own chunk; position `root` ends with all chunks.
///
/// Members inside the tree collect the chunks of their subtree in scratch memory, in the order of
/// the positions counted from the root: of Buffer::kData only the root touches more than its own
/// chunk. A subtree that reaches around the end of the group arrives at the root in two messages.
/// @pre chunks.size() == group.size().
/// @param root  a position of the group.
/// Cost: ceil(log2 P) rounds (one message more where a subtree reaches around); every chunk is sent
/// at most ceil(log2 P) times, and the root receives each once: n (P-1)/P elements.
/// Source: Thakur, Rabenseifner, Gropp 2005, "Optimization of collective communication operations
/// in MPICH".
[[nodiscard]] comm::Schedule binomial_gather(const comm::Group& group, const comm::Chunks& chunks,
                                             int root);

/// @brief Position `root` holds all chunks; each member ends with its own. binomial_gather
/// backwards, with the same costs.
/// @pre chunks.size() == group.size().
/// @param root  a position of the group.
[[nodiscard]] comm::Schedule binomial_scatter(const comm::Group& group, const comm::Chunks& chunks,
                                              int root);

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

/// @brief The root sends the elements of `range` to each of the others in turn: the naive baseline.
/// @param root  a position of the group.
/// Cost: P - 1 rounds; the root sends n (P-1) elements, the others nothing.
[[nodiscard]] comm::Lane linear_broadcast(const comm::Group& group, Range range, int root);

/// @brief Broadcast: binomial_scatter from the root, then ring_all_gather.
/// @param chunks  cut the message; chunks.size() == group.size().
/// @param root    a position of the group.
/// Cost: ceil(log2 P) + P - 1 rounds; the root sends 2 n (P-1)/P elements instead of n log2 P.
/// Source: Thakur, Rabenseifner, Gropp 2005, "Optimization of collective communication operations
/// in MPICH", who credit van de Geijn.
[[nodiscard]] comm::Schedule scatter_all_gather_broadcast(const comm::Group& group,
                                                          const comm::Chunks& chunks, int root);

/// @brief Reduce: ring_reduce_scatter, then binomial_gather to the root.
/// @param chunks  cut the message; chunks.size() == group.size().
/// @param root    a position of the group.
/// Cost: P - 1 + ceil(log2 P) rounds; n (P-1)/P elements sent per rank in the first part, a subtree
/// of chunks in the second.
/// Source: Rabenseifner 2004, "Optimization of collective reduction operations", with a ring for the
/// reduce-scatter.
[[nodiscard]] comm::Schedule reduce_scatter_gather_reduce(const comm::Group& group,
                                                          const comm::Chunks& chunks, int root);

}  // namespace ultra::collectives

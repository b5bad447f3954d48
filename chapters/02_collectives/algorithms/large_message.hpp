#pragma once
/// @file
/// Broadcast and reduce for large messages: no rank sends the whole message more than about twice.

#include "common/comm/collectives/schedule.hpp"

namespace ultra::collectives {

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

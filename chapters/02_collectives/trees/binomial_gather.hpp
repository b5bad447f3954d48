#pragma once
/// @file
/// Gather up, and scatter down, a binomial tree.

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

}  // namespace ultra::collectives

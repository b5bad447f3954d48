#pragma once
/// @file
/// All-to-all on two levels: inside the node first, then between nodes.
///
/// Directly, a rank sends P - 1 messages, most of them small ones to other nodes. On two levels the
/// ranks of a node first gather, rank j of the node, what is for the ranks j of all nodes; then
/// each sends one message to each other node.
/// Source: Rajbhandari et al. 2022, "DeepSpeed-MoE", arXiv 2201.05596, section 5.2; Hwang et al.
/// 2022, "Tutel", arXiv 2206.03382, section 3.4.

#include <cstddef>

#include "common/comm/collectives/schedule.hpp"

namespace ultra::expert_parallel {

/// @brief Chunk j of the input becomes chunk (own position) of member j's data, as in
/// collectives::pairwise_all_to_all.
///
/// Legend: P ranks, g of them in a node, m = P / g nodes.
/// @param chunk           elements for each member; the same on all.
/// @param ranks_per_node  g; divides P.
/// @throws ConfigError when it does not.
/// Cost: g - 1 messages of m chunks inside the node, m - 1 messages of g chunks between nodes.
/// Memory: 3 P chunks of scratch.
[[nodiscard]] comm::Schedule two_level_all_to_all(const comm::Group& group, std::size_t chunk,
                                                  int ranks_per_node);

}  // namespace ultra::expert_parallel

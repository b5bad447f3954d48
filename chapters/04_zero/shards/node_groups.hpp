#pragma once
/// @file
/// NodeGroups: the ranks of one node, and those that have the same place in other nodes.

#include <cstddef>

#include "common/comm/communicator.hpp"

namespace ultra::zero {

/// @brief A rank's two groups: every rank of all nodes is reached by one step in each.
struct NodeGroups {
  Communicator node;    ///< the ranks of this rank's node; its name is "node"
  Communicator across;  ///< one rank of each node, in the nodes' order; "across nodes"
};

/// @brief Groups ranks into nodes of consecutive ranks.
/// @param node_size  ranks of a node; divides the number of ranks.
/// Collective over `ranks`.
/// @throws ConfigError with the equation when node_size does not divide the number of ranks.
[[nodiscard]] NodeGroups make_node_groups(const Communicator& ranks, std::size_t node_size);

/// @brief Checks that nodes of that size make up the ranks.
/// @throws ConfigError with the equation.
void expect_nodes(std::size_t ranks, std::size_t node_size);

}  // namespace ultra::zero

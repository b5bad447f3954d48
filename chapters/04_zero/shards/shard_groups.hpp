#pragma once
/// @file
/// Which ranks share one copy of the model, which hold the same shard of it, which are in one node;
/// and the equal parts of a flat array, one for each rank.

#include <cstddef>
#include <optional>

#include "common/comm/communicator.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::zero {

/// @brief A rank's place among the replicas: who holds the other shards, and who the same one.
///
/// Sharded over all ranks, every shard exists once. Hybrid sharding shards inside a node, where links
/// are fast, and every node has a copy: only gradients' shards travel between nodes.
/// Source: Zhao et al. 2023, "PyTorch FSDP", arXiv 2304.11277, section 3.2.2.
struct ShardGroups {
  Communicator dp;      ///< all ranks: each takes its share of the batch
  Communicator shards;  ///< the ranks whose shards make up one copy of the model
  std::optional<Communicator>
      replicas;  ///< the ranks that hold the same shard, when there are others
};

/// @brief Groups the ranks into nodes of consecutive ranks.
/// @param node_size  ranks that share one copy; divides the number of ranks. Absent: all of them.
/// Collective over dp when there are several nodes.
/// @throws ConfigError with the equation when node_size does not divide the number of ranks.
[[nodiscard]] ShardGroups make_shard_groups(const Communicator& dp,
                                            std::optional<std::size_t> node_size);

/// @brief Checks that nodes of that size make up the ranks.
/// @throws ConfigError with the equation.
void expect_whole_nodes(std::size_t ranks, std::size_t node_size);

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

/// @brief Part `index` of `parts` equal ones; no copy.
/// @param array  [n]; `parts` divides n.
[[nodiscard]] Tensor part_of(const Tensor& array, int index, int parts);

/// @brief The part of a flat array that this rank of `shards` owns; no copy.
/// @param flat  [n]; the number of ranks divides n.
[[nodiscard]] Tensor own_shard(const Tensor& flat, const Communicator& shards);

}  // namespace ultra::zero

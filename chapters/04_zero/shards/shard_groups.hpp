#pragma once
/// @file
/// ShardGroups: which ranks share one copy of the model, and which hold the same shard of it.

#include <cstddef>
#include <optional>

#include "common/comm/communicator.hpp"

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

}  // namespace ultra::zero

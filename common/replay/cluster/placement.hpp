#pragma once
/// @file
/// GroupPlacement: on how many nodes a group of ranks is.

#include <cstddef>
#include <span>

namespace ultra::replay {

/// @brief Ranks of one group, and the nodes they are on.
struct GroupPlacement {
  std::size_t ranks = 1;     ///< of the group
  std::size_t per_node = 1;  ///< the most of them on one node
  std::size_t nodes = 1;     ///< that have some of them

  bool operator==(const GroupPlacement&) const = default;
};

/// @brief Where a group is when rank r runs on node r / gpus_per_node.
/// @param members        ranks of the world, in any order, at least one.
/// @param gpus_per_node  at least 1.
[[nodiscard]] GroupPlacement placement_of(std::span<const int> members, int gpus_per_node);

}  // namespace ultra::replay

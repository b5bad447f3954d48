#include "chapters/04_zero/shards/shard_groups.hpp"

#include <fmt/format.h>

#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"

namespace ultra::zero {

void expect_whole_nodes(std::size_t ranks, std::size_t node_size) {
  if (node_size > 0 && ranks % node_size == 0) return;
  throw ConfigError(
      fmt::format("--hybrid-shard {} must divide the number of ranks that add up gradients: {} "
                  "ranks are not whole nodes of {}.",
                  node_size, ranks, node_size));
}

ShardGroups make_shard_groups(const Communicator& dp, std::optional<std::size_t> node_size) {
  const auto ranks = checked_cast<std::size_t>(dp.size());
  if (node_size) expect_whole_nodes(ranks, *node_size);
  if (!node_size || *node_size == ranks) return {.dp = dp, .shards = dp, .replicas = {}};
  const int size = checked_cast<int>(*node_size);
  return {.dp = dp,
          .shards = dp.split([size](int rank) { return rank / size; }, "shards"),
          .replicas = dp.split([size](int rank) { return rank % size; }, "copies")};
}

void expect_nodes(std::size_t ranks, std::size_t node_size) {
  if (node_size > 0 && ranks % node_size == 0) return;
  throw ConfigError(
      fmt::format("--node-size {} must divide the number of ranks that add up gradients: {} ranks "
                  "are not whole nodes of {}. Choose a divisor of {}.",
                  node_size, ranks, node_size, ranks));
}

NodeGroups make_node_groups(const Communicator& ranks, std::size_t node_size) {
  expect_nodes(checked_cast<std::size_t>(ranks.size()), node_size);
  const int size = checked_cast<int>(node_size);
  return {.node = ranks.split([size](int rank) { return rank / size; }, "node"),
          .across = ranks.split([size](int rank) { return rank % size; }, "across nodes")};
}

Tensor part_of(const Tensor& array, int index, int parts) {
  const std::size_t size = array.numel() / checked_cast<std::size_t>(parts);
  const std::size_t begin = checked_cast<std::size_t>(index) * size;
  return array.slice(0, {begin, begin + size});
}

Tensor own_shard(const Tensor& flat, const Communicator& shards) {
  return part_of(flat, shards.rank(), shards.size());
}

}  // namespace ultra::zero

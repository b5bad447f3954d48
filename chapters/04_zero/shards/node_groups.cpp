#include "chapters/04_zero/shards/node_groups.hpp"

#include <fmt/format.h>

#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"

namespace ultra::zero {

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
  return {.node = ranks.split(ranks.rank() / size, ranks.rank(), "node"),
          .across = ranks.split(ranks.rank() % size, ranks.rank(), "across nodes")};
}

}  // namespace ultra::zero

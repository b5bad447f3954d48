#include "chapters/02_collectives/two_level_all_reduce.hpp"

#include <fmt/format.h>

#include "chapters/02_collectives/ring_all_gather.hpp"
#include "chapters/02_collectives/ring_all_reduce.hpp"
#include "chapters/02_collectives/ring_reduce_scatter.hpp"
#include "common/base/errors.hpp"

namespace ultra::collectives {

// [region two_level]
comm::Lane two_level_all_reduce(const comm::Group& group, Range range, int ranks_per_node) {
  if (ranks_per_node < 1 || group.size() % ranks_per_node != 0) {
    throw ConfigError(
        fmt::format("a two-level all-reduce needs the same number of ranks on every node: {} ranks "
                    "are not a multiple of {} per node. Use 'ring', which takes any number.",
                    group.size(), ranks_per_node));
  }
  const int node = group.rank / ranks_per_node;
  const int place = group.rank % ranks_per_node;
  const int num_nodes = group.size() / ranks_per_node;

  comm::Group inside{.ranks = {}, .rank = place};  // the members on this node
  for (int i = 0; i < ranks_per_node; ++i) {
    inside.ranks.push_back(group.at(node * ranks_per_node + i));
  }
  comm::Group across{.ranks = {}, .rank = node};  // one member per node: those at the same place
  for (int k = 0; k < num_nodes; ++k) across.ranks.push_back(group.at(k * ranks_per_node + place));

  const comm::Chunks chunks = comm::Chunks::even(range, ranks_per_node);
  comm::Lane lane = ring_reduce_scatter(inside, chunks);
  comm::append(lane, ring_all_reduce(across, comm::Chunks::even(chunks[place], num_nodes)));
  comm::append(lane, ring_all_gather(inside, chunks));
  return lane;
}
// [/region]

}  // namespace ultra::collectives

#include "chapters/05_tensor_sequence_parallel/scaling/two_level_gather.hpp"

#include <fmt/format.h>

#include "chapters/02_collectives/ring_all_gather.hpp"
#include "chapters/02_collectives/ring_reduce_scatter.hpp"
#include "common/base/errors.hpp"

namespace ultra::tensor_parallel {
namespace {

/// The two rings of a position, and what travels on them.
struct TwoLevels {
  comm::Group inside;   ///< the members on its node
  comm::Group across;   ///< one member per node: those at the same place
  comm::Chunks chunks;  ///< of the range, one per place
  comm::Chunks pieces;  ///< of the position's chunk, one per node
};

TwoLevels two_levels(const comm::Group& group, Range range, int ranks_per_node) {
  if (ranks_per_node < 1 || group.size() % ranks_per_node != 0) {
    throw ConfigError(fmt::format(
        "two levels need the same number of ranks on every node: {} ranks are not a multiple of {} "
        "per node. Use a ring, which takes any number.",
        group.size(), ranks_per_node));
  }
  const int node = group.rank / ranks_per_node;
  const int place = group.rank % ranks_per_node;
  const int num_nodes = group.size() / ranks_per_node;
  TwoLevels levels{.inside = {.ranks = {}, .rank = place},
                   .across = {.ranks = {}, .rank = node},
                   .chunks = comm::Chunks::even(range, ranks_per_node),
                   .pieces = {}};
  for (int i = 0; i < ranks_per_node; ++i) {
    levels.inside.ranks.push_back(group.at(node * ranks_per_node + i));
  }
  for (int k = 0; k < num_nodes; ++k) {
    levels.across.ranks.push_back(group.at(k * ranks_per_node + place));
  }
  levels.pieces = comm::Chunks::even(levels.chunks[place], num_nodes);
  return levels;
}

}  // namespace

Range two_level_part(const comm::Group& group, Range range, int ranks_per_node) {
  const TwoLevels levels = two_levels(group, range, ranks_per_node);
  return levels.pieces[levels.across.rank];
}

comm::Lane two_level_all_gather(const comm::Group& group, Range range, int ranks_per_node) {
  const TwoLevels levels = two_levels(group, range, ranks_per_node);
  comm::Lane lane = collectives::ring_all_gather(levels.across, levels.pieces);
  comm::append(lane, collectives::ring_all_gather(levels.inside, levels.chunks));
  return lane;
}

comm::Lane two_level_reduce_scatter(const comm::Group& group, Range range, int ranks_per_node) {
  const TwoLevels levels = two_levels(group, range, ranks_per_node);
  comm::Lane lane = collectives::ring_reduce_scatter(levels.inside, levels.chunks);
  comm::append(lane, collectives::ring_reduce_scatter(levels.across, levels.pieces));
  return lane;
}

}  // namespace ultra::tensor_parallel

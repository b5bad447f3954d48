#include "chapters/08_expert_parallel/cost/two_level_all_to_all.hpp"

#include <fmt/format.h>

#include "chapters/02_collectives/steps.hpp"
#include "common/base/errors.hpp"

namespace ultra::expert_parallel {
namespace {

using collectives::exchange_step;
using collectives::local_step;
using comm::Block;
using comm::Buffer;

/// Places of chunks, counted in chunks.
class Places {
 public:
  Places(std::size_t chunk, int ranks) : chunk_(chunk), ranks_(ranks) {}

  [[nodiscard]] Block input(int first) const { return at(Buffer::kInput, first, 1); }
  [[nodiscard]] Block data(int first, int count) const { return at(Buffer::kData, first, count); }
  /// What is packed for a step, and what arrives, of both levels.
  [[nodiscard]] Block packed(int first, int count) const {
    return at(Buffer::kScratch, first, count);
  }
  [[nodiscard]] Block arrived(int first, int count) const {
    return at(Buffer::kScratch, ranks_ + first, count);
  }
  [[nodiscard]] Block repacked(int first, int count) const {
    return at(Buffer::kScratch, 2 * ranks_ + first, count);
  }
  [[nodiscard]] std::size_t scratch() const {
    return static_cast<std::size_t>(3 * ranks_) * chunk_;
  }

 private:
  [[nodiscard]] Block at(Buffer buffer, int first, int count) const {
    const auto begin = static_cast<std::size_t>(first) * chunk_;
    return {{begin, begin + static_cast<std::size_t>(count) * chunk_}, buffer};
  }

  std::size_t chunk_;
  int ranks_;
};

}  // namespace

comm::Schedule two_level_all_to_all(const comm::Group& group, std::size_t chunk,
                                    int ranks_per_node) {
  const int ranks = group.size();
  const int g = ranks_per_node;
  if (g < 1 || ranks % g != 0) {
    throw ConfigError(
        fmt::format("{} ranks are no whole nodes of {}. Choose a divisor.", ranks, g));
  }
  const int nodes = ranks / g;
  const int node = group.rank / g;
  const int local = group.rank % g;
  const int self = collectives::own_rank(group);
  const Places places(chunk, ranks);
  comm::Lane lane;

  // Inside the node: to member j what is for the members j of all nodes.
  for (int j = 0; j < g; ++j) {
    for (int n = 0; n < nodes; ++n) {
      lane.push_back(local_step(self, places.input(n * g + j), places.packed(j * nodes + n, 1)));
    }
  }
  const auto local_peer = [&](int j) { return group.at(node * g + (j + g) % g); };
  for (int s = 0; s < g; ++s) {
    const int to = (local + s) % g;
    const int from = (local + g - s) % g;
    lane.push_back(exchange_step(local_peer(to), places.packed(to * nodes, nodes), local_peer(from),
                                 places.arrived(from * nodes, nodes)));
  }

  // Between nodes: to this rank's fellow on node n what all ranks of this node have for it.
  for (int n = 0; n < nodes; ++n) {
    for (int i = 0; i < g; ++i) {
      lane.push_back(
          local_step(self, places.arrived(i * nodes + n, 1), places.repacked(n * g + i, 1)));
    }
  }
  for (int s = 0; s < nodes; ++s) {
    const int to = (node + s) % nodes;
    const int from = (node + nodes - s) % nodes;
    lane.push_back(exchange_step(group.at(to * g + local), places.repacked(to * g, g),
                                 group.at(from * g + local), places.data(from * g, g)));
  }
  return {.lanes = {lane}, .scratch_count = places.scratch()};
}

}  // namespace ultra::expert_parallel

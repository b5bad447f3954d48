#include "common/replay/cluster/placement.hpp"

#include <algorithm>
#include <vector>

namespace ultra::replay {

GroupPlacement placement_of(std::span<const int> members, int gpus_per_node) {
  std::vector<int> nodes;
  nodes.reserve(members.size());
  for (const int member : members) nodes.push_back(member / gpus_per_node);
  std::ranges::sort(nodes);
  GroupPlacement placement{.ranks = nodes.size(), .per_node = 0, .nodes = 0};
  for (auto here = nodes.begin(); here != nodes.end();) {
    const auto next = std::upper_bound(here, nodes.end(), *here);
    placement.per_node = std::max(placement.per_node, static_cast<std::size_t>(next - here));
    ++placement.nodes;
    here = next;
  }
  return placement;
}

}  // namespace ultra::replay

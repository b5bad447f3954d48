// Groups on nodes, counted rank by rank.
#include "common/replay/cluster/placement.hpp"

#include <algorithm>
#include <map>

#include "tests/support/random.hpp"

namespace ultra::replay {
namespace {

class Placement : public ultra::test::RandomTest {};

TEST_F(Placement, IsWhatCountingFinds) {
  for (int round = 0; round < 100; ++round) {
    const int node = static_cast<int>(random.between(1, 9));
    std::vector<int> members;
    std::map<int, std::size_t> on_node;
    for (int rank = 0; rank < 50; ++rank) {
      if (random.between(0, 2) != 0) continue;
      members.insert(
          members.begin() + static_cast<std::ptrdiff_t>(random.between(0, members.size())), rank);
      ++on_node[rank / node];
    }
    if (members.empty()) continue;
    const auto fullest =
        std::ranges::max_element(on_node, {}, [](const auto& one) { return one.second; });
    EXPECT_EQ(placement_of(members, node),
              (GroupPlacement{
                  .ranks = members.size(), .per_node = fullest->second, .nodes = on_node.size()}));
  }
}

}  // namespace
}  // namespace ultra::replay

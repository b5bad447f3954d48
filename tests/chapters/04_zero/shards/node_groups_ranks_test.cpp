#include "chapters/04_zero/shards/node_groups.hpp"

#include "common/comm/run_ranks.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

std::vector<int> members(const Communicator& group) {
  std::vector<int> ranks;
  for (int i = 0; i < group.size(); ++i) ranks.push_back(group.world_rank(i));
  return ranks;
}

TEST(NodeGroups, ARankHasItsNodeAndItsColumn) {
  run_ranks(6, [](Communicator& dp) {
    const NodeGroups nodes = make_node_groups(dp, 2);
    const int first = dp.rank() / 2 * 2;
    const int column = dp.rank() % 2;
    EXPECT_EQ(members(nodes.node), (std::vector<int>{first, first + 1}));
    EXPECT_EQ(nodes.node.rank(), column);
    EXPECT_EQ(members(nodes.across), (std::vector<int>{column, column + 2, column + 4}));
    EXPECT_EQ(nodes.across.rank(), dp.rank() / 2);
    EXPECT_EQ(nodes.node.name(), "node");
    EXPECT_EQ(nodes.across.name(), "across nodes");
  });
}

TEST(NodeGroups, OneNodeAndNodesOfOneRankAreNodes) {
  run_ranks(3, [](Communicator& dp) {
    EXPECT_EQ(make_node_groups(dp, 3).across.size(), 1);
    EXPECT_EQ(make_node_groups(dp, 1).node.size(), 1);
  });
}

TEST(NodeGroups, NodesMustMakeUpTheRanks) {
  EXPECT_NO_THROW(expect_nodes(6, 3));
  for (const std::size_t bad : {std::size_t{0}, std::size_t{4}, std::size_t{12}}) {
    EXPECT_THAT(message_of<ConfigError>([&] { expect_nodes(6, bad); }),
                AllOf(HasSubstr("--node-size " + std::to_string(bad)),
                      HasSubstr("6 ranks are not whole nodes of " + std::to_string(bad)),
                      HasSubstr("Choose a divisor of 6")));
  }
  run_ranks(2, [](Communicator& dp) {
    EXPECT_THROW(static_cast<void>(make_node_groups(dp, 4)), ConfigError) << "before any message";
  });
}

}  // namespace
}  // namespace ultra::zero

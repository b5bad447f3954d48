#include "chapters/04_zero/shards/shard_groups.hpp"

#include "common/comm/run_ranks.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

std::vector<int> members(const Communicator& group) {
  std::vector<int> ranks;
  for (int i = 0; i < group.size(); ++i) ranks.push_back(group.world_rank(i));
  return ranks;
}

TEST(ShardGroups, WithoutNodesAllRanksShareOneCopy) {
  for (const std::optional<std::size_t> node_size : {std::optional<std::size_t>(), {3}}) {
    run_ranks(3, [&](Communicator& dp) {
      const ShardGroups groups = make_shard_groups(dp, node_size);
      EXPECT_EQ(members(groups.shards), (std::vector<int>{0, 1, 2}));
      EXPECT_EQ(groups.shards.rank(), dp.rank());
      EXPECT_FALSE(groups.replicas) << "nobody else has this rank's shard";
    });
  }
}

TEST(ShardGroups, NodesAreConsecutiveRanksAndTwinsHaveTheSamePlace) {
  run_ranks(6, [](Communicator& dp) {
    const ShardGroups groups = make_shard_groups(dp, 2);
    const int first = dp.rank() / 2 * 2;
    EXPECT_EQ(groups.dp.size(), 6);
    EXPECT_EQ(members(groups.shards), (std::vector<int>{first, first + 1}));
    EXPECT_EQ(groups.shards.rank(), dp.rank() % 2);
    ASSERT_TRUE(groups.replicas);
    const int place = dp.rank() % 2;
    EXPECT_EQ(members(*groups.replicas), (std::vector<int>{place, place + 2, place + 4}));
    EXPECT_EQ(groups.replicas->rank(), dp.rank() / 2);
  });
}

TEST(ShardGroups, ANodeOfOneRankHasEverything) {
  run_ranks(3, [](Communicator& dp) {
    const ShardGroups groups = make_shard_groups(dp, 1);
    EXPECT_EQ(groups.shards.size(), 1);
    ASSERT_TRUE(groups.replicas);
    EXPECT_EQ(groups.replicas->size(), 3);
  });
}

TEST(ShardGroups, NodesThatDoNotMakeUpTheRanksAreAnErrorOnEachRank) {
  run_ranks(4, [](Communicator& dp) {
    for (const std::size_t node_size : {0U, 3U, 8U}) {
      EXPECT_THAT(
          message_of<ConfigError>([&] { static_cast<void>(make_shard_groups(dp, node_size)); }),
          AllOf(HasSubstr("--hybrid-shard " + std::to_string(node_size)),
                HasSubstr("4 ranks are not whole nodes")));
    }
  });
}

TEST(ShardGroups, WholeNodesMakeUpTheRanks) {
  EXPECT_NO_THROW(expect_whole_nodes(8, 4));
  EXPECT_NO_THROW(expect_whole_nodes(8, 8));
  EXPECT_NO_THROW(expect_whole_nodes(8, 1));
  EXPECT_THROW(expect_whole_nodes(8, 16), ConfigError);
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

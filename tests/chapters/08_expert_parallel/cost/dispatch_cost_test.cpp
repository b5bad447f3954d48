// What dispatch costs, and its all-to-all on two levels.
//
// Covers: chapters/08_expert_parallel/cost/dispatch_cost.hpp

#include <set>

#include "chapters/08_expert_parallel/cost/dispatch_cost.hpp"
#include "tests/support/contracts/schedule_interpreter.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::expert_parallel {
namespace {

class DispatchCosts : public ultra::test::RandomTest {
 protected:
  static DispatchQuestion deepseek(int nodes, std::size_t limit = 0) {
    DispatchQuestion q{.machine = collectives::parse_topology("h100"),
                       .tokens = 4096,
                       .hidden = 7168,
                       .num_experts = 256,
                       .top_k = 8,
                       .node_limit = limit};
    q.machine.nodes = nodes;
    return q;
  }
};

// Against draws: k different experts of all.
TEST_F(DispatchCosts, ExpectedNodesAreThoseOfRandomChoices) {
  EXPECT_DOUBLE_EQ(expected_nodes(1, 8, 2), 1.0);
  EXPECT_DOUBLE_EQ(expected_nodes(5, 3, 1), 1.0);
  EXPECT_DOUBLE_EQ(expected_nodes(3, 2, 6), 3.0) << "everything";
  const std::size_t nodes = random.between(2, 5);
  const std::size_t each = random.between(1, 4);
  const std::size_t top_k = random.between(1, nodes * each);
  double sum = 0;
  constexpr int kDraws = 20000;
  std::vector<std::size_t> experts(nodes * each);
  for (int draw = 0; draw < kDraws; ++draw) {
    std::iota(experts.begin(), experts.end(), 0U);
    std::set<std::size_t> reached;
    for (std::size_t k = 0; k < top_k; ++k) {
      std::swap(experts[k], experts[random.between(k, experts.size() - 1)]);
      reached.insert(experts[k] / each);
    }
    sum += static_cast<double>(reached.size());
  }
  // The mean of 20000 draws with a deviation below 2: 8 times its standard error.
  EXPECT_NEAR(sum / kDraws, expected_nodes(nodes, each, top_k), 8 * 2 / std::sqrt(kDraws));
}

TEST_F(DispatchCosts, BytesAreThoseOfTheRows) {
  const std::vector<DispatchCost> costs = dispatch_costs(deepseek(8));
  const double row = 7168 * 2;
  const double rows = 4096.0 * 8 / 64;  // to each rank
  EXPECT_EQ(costs[0].between_nodes, static_cast<std::size_t>(56 * rows * row));
  EXPECT_EQ(costs[0].inside_node, static_cast<std::size_t>(7 * rows * row));
  EXPECT_EQ(costs[1].between_nodes, costs[0].between_nodes) << "in larger messages";
  EXPECT_EQ(costs[1].inside_node, 8 * costs[0].inside_node) << "of all nodes";
  EXPECT_NEAR(static_cast<double>(costs[2].between_nodes),
              4096 * expected_nodes(8, 32, 8) * 7 / 8 * row, 7 * row);
}

TEST_F(DispatchCosts, FewerNodesFewerBytes) {
  std::size_t before = 0;
  for (const std::size_t limit : {1U, 2U, 4U, 8U}) {
    const DispatchCost cost = dispatch_costs(deepseek(8, limit))[2];
    EXPECT_GT(cost.between_nodes, before);
    before = cost.between_nodes;
  }
  EXPECT_EQ(dispatch_costs(deepseek(8, 8))[2], dispatch_costs(deepseek(8))[2]);
}

// One NIC per rank, equal links: the pairwise exchange has a closed form.
TEST_F(DispatchCosts, DirectOnOneNodeIsThePairwiseExchange) {
  const DispatchQuestion q = deepseek(1);
  const double bytes = 4096.0 * 8 / 8 * 7168 * 2;
  const double seconds = 7 * (q.machine.intra.latency + bytes * q.machine.intra.beta());
  EXPECT_NEAR(dispatch_costs(q)[0].seconds, seconds, 1e-9 * seconds);
}

TEST_F(DispatchCosts, RefusesWhatCannotBe) {
  const auto message = [](DispatchQuestion q) {
    return ultra::test::message_of<ConfigError>([&] { static_cast<void>(dispatch_costs(q)); });
  };
  EXPECT_THAT(message(deepseek(3)), ::testing::HasSubstr("256 % 24 = 16"));
  EXPECT_THAT(message(deepseek(2, 3)), ::testing::HasSubstr("above the 2 nodes"));
  DispatchQuestion many = deepseek(8, 1);
  many.top_k = 33;
  EXPECT_THAT(message(many),
              ::testing::HasSubstr("chooses 33 experts, and a limit of 1 nodes leaves it 32"));
}

TEST(TwoLevelAllToAll, EveryChunkArrivesAndFewMessagesCrossNodes) {
  for (const auto& [nodes, g] :
       std::vector<std::pair<int, int>>{{1, 1}, {1, 4}, {3, 1}, {2, 3}, {4, 2}, {3, 4}}) {
    const int ranks = nodes * g;
    constexpr std::size_t kChunk = 2;
    std::vector<comm::Schedule> schedules;
    std::vector<ultra::test::RankBuffers<double>> buffers;
    for (int rank = 0; rank < ranks; ++rank) {
      schedules.push_back(two_level_all_to_all(comm::Group::all(rank, ranks), kChunk, g));
      ultra::test::RankBuffers<double> own;
      for (int to = 0; to < ranks; ++to) {
        for (std::size_t i = 0; i < kChunk; ++i) {
          own.input.push_back(1000.0 * rank + 10.0 * to + static_cast<double>(i));
        }
      }
      own.data.assign(own.input.size(), -1.0);
      buffers.push_back(own);
    }
    const auto result = ultra::test::interpret<double>(schedules, buffers);
    ASSERT_EQ(result.message, "") << nodes << " x " << g;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      for (int from = 0; from < ranks; ++from) {
        for (std::size_t i = 0; i < kChunk; ++i) {
          EXPECT_EQ(result.data[at][static_cast<std::size_t>(from) * kChunk + i],
                    1000.0 * from + 10.0 * rank + static_cast<double>(i));
        }
      }
      const std::size_t sent = static_cast<std::size_t>((g - 1) * nodes + (nodes - 1) * g) * kChunk;
      EXPECT_EQ(result.sent[at], sent);
    }
    EXPECT_LE(result.rounds, (g - 1) + (nodes - 1));
  }
}

TEST(TwoLevelAllToAll, NeedsWholeNodes) {
  const std::string message = ultra::test::message_of<ConfigError>(
      [] { static_cast<void>(two_level_all_to_all(comm::Group::all(0, 6), 1, 4)); });
  EXPECT_NE(message.find("6 ranks are no whole nodes of 4"), std::string::npos) << message;
}

}  // namespace
}  // namespace ultra::expert_parallel

// Exchanges on a ring and on two levels: their time against closed forms, and what arrives.
//
// Covers: chapters/05_tensor_sequence_parallel/scaling/exchange_cost.hpp
// Covers: chapters/05_tensor_sequence_parallel/scaling/exchange_cost.hpp
// Covers: chapters/05_tensor_sequence_parallel/scaling/playbook_figures.hpp

#include "chapters/05_tensor_sequence_parallel/scaling/exchange_cost.hpp"
#include "chapters/02_collectives/ring_cost.hpp"
#include "chapters/02_collectives/simulator/closed_form.hpp"
#include "chapters/02_collectives/simulator/cost_model.hpp"
#include "chapters/05_tensor_sequence_parallel/scaling/playbook_figures.hpp"
#include "tests/support/contracts/schedule_interpreter.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::tensor_parallel {
namespace {

using collectives::LinkKind;
using collectives::Topology;

constexpr OpKind kOps[] = {OpKind::kAllReduce, OpKind::kAllGather, OpKind::kReduceScatter};
constexpr ExchangeAlgorithm kAlgorithms[] = {ExchangeAlgorithm::kRing,
                                             ExchangeAlgorithm::kTwoLevel};

collectives::RingCost ring_cost(OpKind op, int ranks, std::size_t count, std::size_t element_bytes,
                                const collectives::LinkCost& link) {
  if (op == OpKind::kAllReduce) {
    return collectives::ring_all_reduce_cost(ranks, count, element_bytes, link);
  }
  if (op == OpKind::kAllGather) {
    return collectives::ring_all_gather_cost(ranks, count, element_bytes, link);
  }
  return collectives::ring_reduce_scatter_cost(ranks, count, element_bytes, link);
}

class SimulateExchange : public test::RandomTest {
 protected:
  Topology random_machine(int nodes, int gpus) {
    return {.nodes = nodes,
            .gpus_per_node = gpus,
            .intra = {.latency = random.uniform(0.0, 1e-5), .bandwidth = random.uniform(1e9, 1e12)},
            .inter = {.latency = random.uniform(0.0, 1e-4), .bandwidth = random.uniform(1e9, 1e11)},
            .nics_per_node = gpus,
            .gamma = random.uniform(0.0, 1e-10),
            .torus = {}};
  }
  int small(int most) {
    return static_cast<int>(random.between(1, static_cast<std::size_t>(most)));
  }
};

/// Any count: ring_cost.hpp knows the longest chunk.
TEST_F(SimulateExchange, IsTheRingsClosedFormInANode) {
  for (int i = 0; i < 100 && !HasFailure(); ++i) {
    const Topology machine = random_machine(1, small(9));
    const std::size_t count = random.between(0, 10'000);
    const std::size_t element_bytes = random.pick<std::size_t>({1, 2, 4});
    for (const OpKind op : kOps) {
      const collectives::RingCost expected = ring_cost(
          op, machine.gpus_per_node, count, element_bytes, machine.cost(LinkKind::kIntra));
      for (const ExchangeAlgorithm algorithm : kAlgorithms) {
        const ExchangeCost cost = simulate_exchange(
            {.op = op, .count = count, .element_bytes = element_bytes}, algorithm, machine);
        EXPECT_NEAR(cost.seconds, expected.seconds, 1e-12 * expected.seconds);
        EXPECT_NEAR(cost.intra_bytes, expected.sent_bytes, 1e-9 * expected.sent_bytes);
        EXPECT_EQ(cost.inter_bytes, 0.0);
      }
    }
  }
}

/// N nodes of L ranks: a ring of N for a chunk of S / L, and a ring of L for S.
TEST_F(SimulateExchange, OfTwoLevelsIsTheSumOfTheirRings) {
  for (int i = 0; i < 100 && !HasFailure(); ++i) {
    const int nodes = small(4) + 1;
    const int gpus = small(8);
    const Topology machine = random_machine(nodes, gpus);
    const std::size_t chunk = static_cast<std::size_t>(nodes) * random.between(1, 1000);
    const std::size_t count = chunk * static_cast<std::size_t>(gpus);
    for (const OpKind op : {OpKind::kAllGather, OpKind::kReduceScatter}) {
      const auto across = ring_cost(op, nodes, chunk, 2, machine.cost(LinkKind::kInter));
      const auto inside = ring_cost(op, gpus, count, 2, machine.cost(LinkKind::kIntra));
      const ExchangeCost cost = simulate_exchange({.op = op, .count = count, .element_bytes = 2},
                                                  ExchangeAlgorithm::kTwoLevel, machine);
      const double seconds = across.seconds + inside.seconds;
      EXPECT_NEAR(cost.seconds, seconds, 1e-12 * seconds);
      EXPECT_NEAR(cost.intra_bytes, inside.sent_bytes, 1e-9 * inside.sent_bytes);
      EXPECT_NEAR(cost.inter_bytes, across.sent_bytes, 1e-9 * across.sent_bytes);
    }
    const auto form = collectives::closed_form(OpKind::kAllReduce, "two-level", machine,
                                               collectives::tuning_for("two-level", machine));
    ASSERT_TRUE(form.has_value());
    const ExchangeCost both =
        simulate_exchange({.op = OpKind::kAllReduce, .count = count, .element_bytes = 2},
                          ExchangeAlgorithm::kTwoLevel, machine);
    const double seconds = form->seconds(2.0 * static_cast<double>(count));
    EXPECT_NEAR(both.seconds, seconds, 1e-12 * seconds);
  }
}

/// All but one chunk enter each node through the one NIC at which the ring comes in.
TEST(SimulateExchangeOnARing, TheNicAtTheBorderCarriesAlmostAll) {
  const Topology machine = collectives::parse_topology("h100,nodes=2");
  const std::size_t count = 16U << 20;
  const double chunk_seconds = 2.0 * (1 << 20) / 50e9;
  const ExchangeCost cost =
      simulate_exchange({.op = OpKind::kAllGather, .count = count, .element_bytes = 2},
                        ExchangeAlgorithm::kRing, machine);
  EXPECT_GE(cost.seconds, 15 * chunk_seconds);
  EXPECT_LE(cost.seconds, 15 * (chunk_seconds + 14e-6) + 1e-12);
  // 2 of 16 ranks send 15 chunks of 2 MiB each to the other node.
  EXPECT_EQ(cost.inter_bytes, 2.0 * 15 * (2 << 20) / 16);
  const ExchangeCost two_levels =
      simulate_exchange({.op = OpKind::kAllGather, .count = count, .element_bytes = 2},
                        ExchangeAlgorithm::kTwoLevel, machine);
  EXPECT_LT(two_levels.seconds, cost.seconds / 4);
}

TEST(SimulateExchangeRefuses, OtherOperations) {
  EXPECT_THAT(test::message_of<ConfigError>([] {
                static_cast<void>(simulate_exchange(
                    {.op = OpKind::kBroadcast, .count = 1, .element_bytes = 2},
                    ExchangeAlgorithm::kRing, collectives::parse_topology("h100")));
              }),
              HasSubstr("not by broadcast"));
}

/// Nodes of equally many ranks, and elements among them.
struct Case {
  int nodes = 1;
  int ranks_per_node = 1;
  std::size_t count = 0;

  [[nodiscard]] int ranks() const { return nodes * ranks_per_node; }
  [[nodiscard]] Range range() const { return {0, count}; }
  [[nodiscard]] Range part(int rank) const {
    return two_level_part(comm::Group::all(rank, ranks()), range(), ranks_per_node);
  }
};

std::vector<Case> cases() {
  std::vector<Case> cases;
  for (const int nodes : {1, 2, 3, 4}) {
    for (const int ranks_per_node : {1, 2, 3, 5}) {
      for (const std::size_t count : {0U, 1U, 7U, 60U, 97U}) {
        cases.push_back({.nodes = nodes, .ranks_per_node = ranks_per_node, .count = count});
      }
    }
  }
  return cases;
}

using MakeLane = comm::Lane (*)(const comm::Group&, Range, int);

test::Interpretation<double> run(const Case& c, MakeLane lane_of,
                                 const std::vector<test::RankBuffers<double>>& buffers) {
  std::vector<comm::Schedule> schedules;
  for (int rank = 0; rank < c.ranks(); ++rank) {
    schedules.push_back(
        {.lanes = {lane_of(comm::Group::all(rank, c.ranks()), c.range(), c.ranks_per_node)}});
  }
  return test::interpret<double>(schedules, buffers);
}

std::string name(const Case& c) {
  return std::to_string(c.nodes) + " x " + std::to_string(c.ranks_per_node) + ", " +
         std::to_string(c.count) + " elements";
}

TEST(TwoLevelAllGather, GivesAllPartsToAll) {
  for (const Case& c : cases()) {
    std::vector<test::RankBuffers<double>> buffers;
    std::vector<double> all(c.count);
    for (int rank = 0; rank < c.ranks(); ++rank) {
      std::vector<double> data(c.count, -1.0);
      for (std::size_t i = c.part(rank).begin; i < c.part(rank).end; ++i) {
        data[i] = all[i] = 1000.0 * rank + static_cast<double>(i);
      }
      buffers.push_back({.data = data});
    }
    const auto result = run(c, two_level_all_gather, buffers);
    ASSERT_EQ(result.fault, test::Fault::kNone) << name(c) << ": " << result.message;
    for (const std::vector<double>& data : result.data) EXPECT_EQ(data, all) << name(c);
    EXPECT_EQ(result.rounds, c.nodes - 1 + c.ranks_per_node - 1) << name(c);
  }
}

TEST(TwoLevelReduceScatter, LeavesEachRankTheSumOfItsPart) {
  for (const Case& c : cases()) {
    std::vector<test::RankBuffers<double>> buffers;
    std::vector<double> sum(c.count, 0.0);
    for (int rank = 0; rank < c.ranks(); ++rank) {
      std::vector<double> data(c.count);
      for (std::size_t i = 0; i < c.count; ++i) {
        data[i] = static_cast<double>(100 * i) + rank * rank;
        sum[i] += data[i];
      }
      buffers.push_back({.data = data});
    }
    const auto result = run(c, two_level_reduce_scatter, buffers);
    ASSERT_EQ(result.fault, test::Fault::kNone) << name(c) << ": " << result.message;
    for (int rank = 0; rank < c.ranks(); ++rank) {
      const std::vector<double>& data = result.data[static_cast<std::size_t>(rank)];
      for (std::size_t i = c.part(rank).begin; i < c.part(rank).end; ++i) {
        EXPECT_EQ(data[i], sum[i]) << name(c) << ", rank " << rank << ", element " << i;
      }
    }
    EXPECT_EQ(result.rounds, c.nodes - 1 + c.ranks_per_node - 1) << name(c);
  }
}

TEST(TwoLevelGatherRefuses, NodesThatAreNotFull) {
  const comm::Group group = comm::Group::all(0, 6);
  for (const int ranks_per_node : {0, 4}) {
    const auto refusal = [&](auto&& fn) {
      return test::message_of<ConfigError>([&] {
        static_cast<void>(fn(group, Range{0, 6}, ranks_per_node));
      });
    };
    const auto names_it =
        AllOf(HasSubstr("6 ranks are not a multiple of"), HasSubstr("Use a ring"));
    EXPECT_THAT(refusal(two_level_all_gather), names_it);
    EXPECT_THAT(refusal(two_level_reduce_scatter), names_it);
    EXPECT_THAT(refusal(two_level_part), names_it);
  }
}

/// Its drop from 8 to 16 ranks, "around 43 %" in its text.
TEST(PlaybookFigures, AreThePublishedOnes) {
  ASSERT_EQ(playbook_figures().size(), 5U);
  const PlaybookFigure eight = playbook_figures()[2];
  const PlaybookFigure sixteen = playbook_figures()[3];
  EXPECT_EQ(eight, (PlaybookFigure{8, 20, 10888.53}));
  EXPECT_EQ(sixteen, (PlaybookFigure{16, 40, 6159.3}));
  EXPECT_NEAR(sixteen.tokens_per_second_per_rank / eight.tokens_per_second_per_rank, 1.0 - 0.434,
              0.0005);
}

}  // namespace
}  // namespace ultra::tensor_parallel

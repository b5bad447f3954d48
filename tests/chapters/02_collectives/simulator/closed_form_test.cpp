// The simulator against the closed forms: the step lists that ranks carry out for real take the
// seconds that the textbooks say.
//
// Covers: chapters/02_collectives/simulator/closed_form.hpp
// Covers: chapters/02_collectives/simulator/cost_model.hpp, chapters/02_collectives/simulator/link_cost.hpp,

#include "chapters/02_collectives/simulator/closed_form.hpp"

#include <bit>

#include "chapters/02_collectives/ring_cost.hpp"
#include "chapters/02_collectives/simulator/cost_model.hpp"
#include "chapters/02_collectives/simulator/link_simulator.hpp"
#include "tests/support/sanitizer.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::collectives {
namespace {

constexpr std::size_t kElementBytes = 4;
/// Both sides are sums of up to 2^13 terms, each rounded: 2^13 * 2^-53 is 1e-12.
constexpr double kRelative = 1e-9;

SimulationResult simulated(OpKind op, const NamedAlgorithm& algorithm, const Topology& topology,
                           const Tuning& tuning, std::size_t count) {
  return simulate(topology, kElementBytes, [&](int rank) {
    CollectiveRequest request =
        CollectiveRequest::of(op, comm::Group::all(rank, topology.ranks()), count, tuning);
    request.element_bytes = kElementBytes;
    return algorithm.schedule(request);
  });
}

/// A count that all chunks of all algorithms divide: by the ranks, and by the power of two below.
std::size_t dividing_count(int ranks, std::size_t multiple) {
  const auto n = static_cast<std::size_t>(ranks);
  return n * std::bit_floor(n) * multiple;
}

/// Returns whether there was something to compare.
bool expect_closed_form(OpKind op, const NamedAlgorithm& algorithm, const Topology& topology,
                        std::size_t multiple) {
  const Tuning tuning = tuning_for(algorithm.name, topology);
  const auto form = closed_form(op, algorithm.name, topology, tuning);
  const std::size_t count = dividing_count(topology.ranks(), multiple);
  const auto request =
      CollectiveRequest::of(op, comm::Group::all(0, topology.ranks()), count, tuning);
  if (!form || !algorithm.why_not(request).empty()) return false;
  const double expected = form->seconds(static_cast<double>(count * kElementBytes));
  EXPECT_NEAR(simulated(op, algorithm, topology, tuning, count).seconds, expected,
              kRelative * expected)
      << to_string(op) << " " << algorithm.name << ", " << count << " elements on "
      << topology.describe();
  return true;
}

/// `at_least` algorithms have a closed form there.
void expect_all_closed_forms(const Topology& topology, std::size_t multiple, int at_least) {
  int compared = 0;
  for (const OpKind op : collective_ops()) {
    for (const NamedAlgorithm& algorithm : algorithms(op)) {
      compared += expect_closed_form(op, algorithm, topology, multiple) ? 1 : 0;
    }
  }
  EXPECT_GE(compared, at_least) << topology.describe();
}

class ClosedForm : public test::RandomTest {
 protected:
  Topology draw(int nodes, int gpus) {
    return {
        .nodes = nodes,
        .gpus_per_node = gpus,
        .intra = {.latency = random.uniform(1e-6, 1e-5), .bandwidth = random.uniform(1e9, 1e12)},
        .inter = {.latency = random.uniform(1e-6, 1e-4), .bandwidth = random.uniform(1e9, 1e11)},
        .nics_per_node = gpus,
        .gamma = random.pick({0.0, 1e-12, 1e-10}),
        .torus = {}};
  }
  int between(std::size_t low, std::size_t high) {
    return static_cast<int>(random.between(low, high));
  }
};

TEST_F(ClosedForm, IsTheSimulatedTimeOnOneNode) {
  for (int ranks = 2; ranks <= 17 && !HasFailure(); ++ranks) {
    expect_all_closed_forms(draw(1, ranks), random.between(1, 100), 17);
  }
  expect_all_closed_forms(draw(1, 32), 3, 24);
  expect_all_closed_forms(draw(1, 60), 3, 17);
}

TEST_F(ClosedForm, IsTheSimulatedTimeWithOneGpuPerNode) {
  for (int i = 0; i < 5 && !HasFailure(); ++i)
    expect_all_closed_forms(draw(between(2, 40), 1), 2, 17);
}

TEST_F(ClosedForm, IsTheSimulatedTimeOfTwoLevels) {
  for (int i = 0; i < 10 && !HasFailure(); ++i) {
    expect_all_closed_forms(draw(between(2, 8), between(2, 8)), random.between(1, 20), 3);
  }
}

TEST_F(ClosedForm, IsTheSimulatedTimeOnATorus) {
  for (int i = 0; i < 10 && !HasFailure(); ++i) {
    const std::vector<int> sizes = {between(2, 5), between(2, 5), between(2, 5)};
    for (const std::size_t dimensions : {2u, 3u}) {
      const std::vector<int> torus(sizes.begin(),
                                   sizes.begin() + static_cast<std::ptrdiff_t>(dimensions));
      int ranks = 1;
      for (const int size : torus) ranks *= size;
      Topology topology = draw(1, ranks);
      topology.nics_per_node = 1;
      topology.torus = torus;
      expect_all_closed_forms(topology, random.between(1, 20), dimensions == 2 ? 2 : 1);
    }
  }
}

TEST_F(ClosedForm, OfRingAndPairwiseExchangeHoldsForCountsThatDoNotDivide) {
  for (int i = 0; i < 40 && !HasFailure(); ++i) {
    const Topology topology = draw(1, between(2, 24));
    const LinkCost link = topology.cost(LinkKind::kIntra);
    const std::size_t count = random.between(0, 200);
    const int n = topology.ranks();
    const auto expect_same = [&](OpKind op, const char* name, double expected) {
      const double found = simulated(op, find_algorithm(op, name), topology, {}, count).seconds;
      EXPECT_NEAR(found, expected, kRelative * expected)
          << to_string(op) << " " << name << " " << n << " " << count;
    };
    expect_same(OpKind::kAllGather, "ring", ring_all_gather_cost(n, count, 4, link).seconds);
    for (const char* name : {"ring", "pairwise", "pairwise-tree"}) {
      const auto scatter = ring_reduce_scatter_cost(n, count, 4, link);
      expect_same(OpKind::kReduceScatter, name, scatter.seconds);
      const auto reduce = ring_all_reduce_cost(n, count, 4, link);
      expect_same(OpKind::kAllReduce, name, reduce.seconds);
    }
  }
}

// The double tree has no exact form: its lanes share ports, and rounds overlap more or less. Over 2
// to 130 ranks and 1 to 64 segments the ratio was 0.25 (2 ranks, 1 segment) to 1.40 (72 ranks, 64).
TEST_F(ClosedForm, OfTheDoubleTreeIsAnEstimate) {
  for (int i = 0; i < 20 && !HasFailure(); ++i) {
    Topology topology = draw(1, between(2, 130));
    topology.gamma = 0.0;
    const Tuning tuning{.segments = between(1, 64)};
    const std::size_t count = 2 * 1024 * static_cast<std::size_t>(tuning.segments);
    const auto& double_tree = find_algorithm(OpKind::kAllReduce, "double-tree");
    const double found =
        simulated(OpKind::kAllReduce, double_tree, topology, tuning, count).seconds;
    const double estimate = double_tree_all_reduce_cost(topology.ranks(), tuning.segments,
                                                        topology.cost(LinkKind::kIntra))
                                .seconds(static_cast<double>(count * kElementBytes));
    EXPECT_LE(found, estimate * 1.5) << topology.describe() << " " << tuning.segments;
    EXPECT_GE(found, estimate * 0.25 * (1 - kRelative))
        << topology.describe() << " " << tuning.segments;
  }
}

TEST(ClosedFormOfAMachine, IsMissingWhereMessagesShareLinks) {
  const auto has_form = [](const char* name, const char* machine) {
    const Topology topology = parse_topology(machine);
    return closed_form(OpKind::kAllReduce, name, topology, tuning_for(name, topology)).has_value();
  };
  EXPECT_TRUE(has_form("ring", "h100"));
  EXPECT_FALSE(has_form("ring", "h100,nodes=2"));
  EXPECT_TRUE(has_form("two-level", "h100,nodes=2"));
  EXPECT_FALSE(has_form("two-level", "h100,nodes=2,nics=4"));
  EXPECT_FALSE(has_form("two-level", "h100,nodes=2,order=interleaved"));
  EXPECT_FALSE(has_form("segmented-ring", "h100"));
  EXPECT_FALSE(has_form("ring", "torus=4x4"));
  EXPECT_TRUE(has_form("torus-2d", "torus=4x4"));
  EXPECT_FALSE(has_form("torus-2d", "torus=4x4x4"));
  EXPECT_TRUE(has_form("torus-3d", "torus=4x4x4"));
}

TEST(ClosedFormOfAMachine, GivesAlgorithmsItsShape) {
  EXPECT_EQ(tuning_for("two-level", parse_topology("h100,nodes=4")).ranks_per_node, 8);
  EXPECT_EQ(tuning_for("torus-2d", parse_topology("h100,nodes=4")).grid, (std::vector<int>{4, 8}));
  EXPECT_TRUE(tuning_for("torus-2d", parse_topology("h100")).grid.empty());
  EXPECT_EQ(tuning_for("torus-3d", parse_topology("torus=2x3x4")).grid,
            (std::vector<int>{2, 3, 4}));
  EXPECT_TRUE(tuning_for("torus-2d", parse_topology("torus=2x3x4")).grid.empty());
}

TEST_F(ClosedForm, IsTheSimulatedTimeOfLogarithmicAlgorithmsOn4096Ranks) {
  const Topology topology = draw(1, test::sanitizer_owns_the_heap() ? 256 : 4096);
  for (const auto& [op, name] :
       {std::pair{OpKind::kAllReduce, "halving-doubling"},
        std::pair{OpKind::kAllReduce, "recursive-doubling"},
        std::pair{OpKind::kBroadcast, "binomial"}, std::pair{OpKind::kReduce, "binomial"},
        std::pair{OpKind::kGather, "binomial"}, std::pair{OpKind::kBarrier, "dissemination"}}) {
    EXPECT_TRUE(expect_closed_form(op, find_algorithm(op, name), topology, 1)) << name;
  }
  const Topology nodes = draw(test::sanitizer_owns_the_heap() ? 32 : 512, 8);
  EXPECT_TRUE(expect_closed_form(OpKind::kAllReduce,
                                 find_algorithm(OpKind::kAllReduce, "two-level"), nodes, 1));
}

/// Numbers whose sums show which of them went in how often: a million, a thousand, one.
constexpr LinkCost kLink{.alpha = 1e6, .beta = 1e3, .gamma = 1.0};

double seconds(const CollectiveCost& cost, double bytes) { return cost.seconds(bytes); }

// By hand, 8 ranks and 8 bytes: chunks of 1 byte, log n = 3.
TEST(CostModel, OfEightRanksByHand) {
  EXPECT_DOUBLE_EQ(seconds(ring_reduce_scatter_cost(8, kLink), 8), 7e6 + 7e3 + 7);
  EXPECT_DOUBLE_EQ(seconds(ring_all_gather_cost(8, kLink), 8), 7e6 + 7e3);
  EXPECT_DOUBLE_EQ(seconds(ring_all_reduce_cost(8, kLink), 8), 14e6 + 14e3 + 7);
  EXPECT_DOUBLE_EQ(seconds(recursive_halving_cost(8, kLink), 8), 3e6 + 7e3 + 7) << "4 + 2 + 1";
  EXPECT_DOUBLE_EQ(seconds(recursive_doubling_all_gather_cost(8, kLink), 8), 3e6 + 7e3);
  EXPECT_DOUBLE_EQ(seconds(recursive_doubling_all_reduce_cost(8, kLink), 8), 3e6 + 24e3 + 24);
  EXPECT_DOUBLE_EQ(seconds(rabenseifner_all_reduce_cost(8, kLink), 8), 6e6 + 14e3 + 7);
  EXPECT_DOUBLE_EQ(seconds(binomial_all_reduce_cost(8, kLink), 8), 6e6 + 48e3 + 24);
  EXPECT_DOUBLE_EQ(seconds(linear_broadcast_cost(8, kLink), 8), 7e6 + 56e3);
  EXPECT_DOUBLE_EQ(seconds(binomial_broadcast_cost(8, kLink), 8), 3e6 + 24e3);
  EXPECT_DOUBLE_EQ(seconds(binomial_reduce_cost(8, kLink), 8), 3e6 + 24e3 + 24);
  EXPECT_DOUBLE_EQ(seconds(binomial_gather_cost(8, kLink), 8), 3e6 + 7e3);
  EXPECT_DOUBLE_EQ(seconds(scatter_all_gather_broadcast_cost(8, kLink), 8), 10e6 + 14e3);
  EXPECT_DOUBLE_EQ(seconds(reduce_scatter_gather_cost(8, kLink), 8), 10e6 + 14e3 + 7);
  EXPECT_DOUBLE_EQ(seconds(pairwise_all_to_all_cost(8, kLink), 8), 7e6 + 7e3);
  EXPECT_DOUBLE_EQ(seconds(bruck_all_to_all_cost(8, kLink), 8), 3e6 + 12e3) << "3 times S / 2";
  EXPECT_DOUBLE_EQ(seconds(dissemination_barrier_cost(8, kLink), 8), 3e6);
}

// 6 ranks: 2 fold into 4 (log n = 2), trees have 3 rounds. Bruck's distances 1 to 5 have
// 1 + 1 + 2 + 1 + 2 = 7 bits.
TEST(CostModel, OfSixRanksByHand) {
  EXPECT_DOUBLE_EQ(seconds(recursive_doubling_all_reduce_cost(6, kLink), 12), 4e6 + 48e3 + 36);
  EXPECT_DOUBLE_EQ(seconds(rabenseifner_all_reduce_cost(6, kLink), 12), 6e6 + 42e3 + 21);
  EXPECT_DOUBLE_EQ(seconds(binomial_broadcast_cost(6, kLink), 12), 3e6 + 36e3);
  EXPECT_DOUBLE_EQ(seconds(bruck_all_to_all_cost(6, kLink), 12), 3e6 + 14e3);
  EXPECT_DOUBLE_EQ(seconds(dissemination_barrier_cost(6, kLink), 0), 3e6);
}

// 3 rows of 4 columns and 12 bytes. Torus: 3 steps of 3 bytes in the row, 4 of 1 byte in the column,
// 3 of 3 bytes in the row. Mesh: 6 steps of 3 bytes, 4 of 4 bytes.
TEST(CostModel, OfGridsByHand) {
  const LinkCost slow{.alpha = 7e6, .beta = 5e3, .gamma = 1.0};
  EXPECT_DOUBLE_EQ(seconds(torus_2d_all_reduce_cost(3, 4, slow, kLink), 12),
                   6e6 + 18e3 + 9 + 4 * 7e6 + 4 * 5e3 + 2);
  EXPECT_DOUBLE_EQ(seconds(mesh_2d_all_reduce_cost(3, 4, slow, kLink), 12),
                   6e6 + 18e3 + 9 + 4 * 7e6 + 16 * 5e3 + 8);
  // 2 x 3 x 4 and 24 bytes: 3 steps of 6 in x, 2 of 2 in y, 2 of 1 in z, and back.
  EXPECT_DOUBLE_EQ(seconds(torus_3d_all_reduce_cost(2, 3, 4, kLink), 24),
                   (6 + 4 + 2) * 1e6 + (36 + 8 + 2) * 1e3 + 18 + 4 + 1);
}

TEST(CostModel, OfTwoTreesByHand) {
  // Both trees at once: 4 (3 + 4) rounds of 1 byte.
  EXPECT_DOUBLE_EQ(seconds(double_tree_all_reduce_cost(8, 4, kLink), 8), 28e6 + 28e3 + 14);
  // 2 log n alpha + 2 S beta for large S and many segments (Sanders, Speck, Traff 2009).
  EXPECT_NEAR(double_tree_all_reduce_cost(1024, 1 << 20, {.beta = 1.0}).seconds_per_byte, 2.0,
              1e-4);
}

// nccl-tests, doc/PERFORMANCE.md.
TEST(BusBandwidth, HasTheFactorsOfNcclTests) {
  EXPECT_DOUBLE_EQ(bus_factor(OpKind::kAllReduce, 8), 1.75);
  for (const OpKind op : {OpKind::kReduceScatter, OpKind::kAllGather, OpKind::kAllToAll,
                          OpKind::kGather, OpKind::kScatter}) {
    EXPECT_DOUBLE_EQ(bus_factor(op, 8), 0.875) << to_string(op);
  }
  for (const OpKind op : {OpKind::kBroadcast, OpKind::kReduce, OpKind::kSend, OpKind::kRecv}) {
    EXPECT_DOUBLE_EQ(bus_factor(op, 8), 1.0) << to_string(op);
  }
  EXPECT_EQ(bus_factor(OpKind::kBarrier, 8), 0.0);
  EXPECT_EQ(bus_factor(OpKind::kAllReduce, 1), 0.0) << "nothing is sent";
}

// A bus bandwidth of 480 GB/s on 8 GPUs is an algorithm bandwidth of about 275 GB/s (nccl-tests
// issue 212): 480 / 1.75 = 274.3.
TEST(BusBandwidth, OfNvlsIsThePublishedOne) {
  const double seconds_per_gb = 1.0 / 274.29;
  EXPECT_NEAR(bus_bandwidth(OpKind::kAllReduce, 8, 1e9, seconds_per_gb) / 1e9, 480.0, 0.05);
  EXPECT_NEAR(algorithm_bandwidth(1e9, seconds_per_gb) / 1e9, 274.29, 1e-9);
  EXPECT_EQ(algorithm_bandwidth(0.0, 0.0), 0.0);
}

TEST(PublishedBandwidths, AreThoseOfTheirSources) {
  std::vector<double> medians;
  for (const PublishedBandwidth& row : published_bandwidths()) {
    EXPECT_FALSE(row.source.empty());
    EXPECT_GT(row.gb_per_second, 0.0);
    if (row.what.find("median") != std::string_view::npos) medians.push_back(row.gb_per_second);
  }
  EXPECT_THAT(medians, ElementsAre(436.0, 361.7, 160.1, 99.6, 84.7, 64.9, 32.9));
  const Json json = published_to_json();
  ASSERT_EQ(json.size(), published_bandwidths().size());
  EXPECT_EQ(json[0]["gb_per_second"], 450.0);
  EXPECT_EQ(json[1]["op"], "all_reduce");
  EXPECT_EQ(json.elements().back()["nodes"], 64);
}

}  // namespace
}  // namespace ultra::collectives

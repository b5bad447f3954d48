#include "chapters/02_collectives/simulator/topology.hpp"

#include <set>

#include "tests/support/toolbox.hpp"

namespace ultra::collectives {
namespace {

Topology nodes_of(int nodes, int gpus, int nics, RankOrder order = RankOrder::kNatural) {
  return {.nodes = nodes,
          .gpus_per_node = gpus,
          .intra = {.latency = 1.0, .bandwidth = 8.0},
          .inter = {.latency = 10.0, .bandwidth = 2.0},
          .nics_per_node = nics,
          .gamma = 0.5,
          .order = order,
          .torus = {}};
}

Topology torus_of(const std::vector<int>& sizes) {
  int ranks = 1;
  for (const int size : sizes) ranks *= size;
  Topology topology = nodes_of(1, ranks, 1);
  topology.torus = sizes;
  return topology;
}

TEST(Topology, PlacesRanksOnNodesInOrder) {
  const Topology natural = nodes_of(2, 4, 4);
  const Topology interleaved = nodes_of(2, 4, 4, RankOrder::kInterleaved);
  std::vector<int> natural_nodes;
  std::vector<int> interleaved_nodes;
  std::vector<int> interleaved_places;
  for (int rank = 0; rank < 8; ++rank) {
    natural_nodes.push_back(natural.node_of(rank));
    interleaved_nodes.push_back(interleaved.node_of(rank));
    interleaved_places.push_back(interleaved.local_rank_of(rank));
  }
  EXPECT_THAT(natural_nodes, ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
  EXPECT_THAT(interleaved_nodes, ElementsAre(0, 1, 0, 1, 0, 1, 0, 1));
  EXPECT_THAT(interleaved_places, ElementsAre(0, 0, 1, 1, 2, 2, 3, 3));
}

TEST(Topology, RoutesTakeTheSwitchOrTheNics) {
  const Topology topology = nodes_of(2, 4, 2);
  const Route intra = topology.route(1, 3);
  EXPECT_EQ(intra.kind, LinkKind::kIntra);
  EXPECT_EQ(intra.alpha, 1.0);
  EXPECT_EQ(intra.beta, 0.125);
  EXPECT_THAT(intra.ports, ElementsAre(1, 8 + 3)) << "rank 1's way out, rank 3's way in";
  const Route inter = topology.route(1, 6);
  EXPECT_EQ(inter.kind, LinkKind::kInter);
  EXPECT_EQ(inter.alpha, 10.0);
  EXPECT_EQ(inter.beta, 0.5);
  EXPECT_THAT(inter.ports, ElementsAre(16 + 0, 16 + 4 + 3)) << "NIC 0 out, NIC 3 in";
  EXPECT_EQ(topology.port_count(), 2 * 8 + 2 * 4);
  EXPECT_EQ(topology.cost(LinkKind::kInter), (LinkCost{.alpha = 10, .beta = 0.5, .gamma = 0.5}));
  EXPECT_EQ(topology.cost(LinkKind::kIntra), (LinkCost{.alpha = 1, .beta = 0.125, .gamma = 0.5}));
}

TEST(Topology, TorusNeighboursHaveALinkOfTheirOwn) {
  const Topology topology = torus_of({3, 4});
  std::set<int> ports;
  for (int rank = 0; rank < 12; ++rank) {
    const int row = rank / 4;
    const int column = rank % 4;
    for (const int neighbour : {row * 4 + (column + 1) % 4, row * 4 + (column + 3) % 4,
                                (row + 1) % 3 * 4 + column, (row + 2) % 3 * 4 + column}) {
      const Route route = topology.route(rank, neighbour);
      ASSERT_EQ(route.ports.size(), 1u) << rank << " to " << neighbour;
      EXPECT_EQ(route.kind, LinkKind::kTorus);
      EXPECT_EQ(route.alpha, 1.0);
      EXPECT_TRUE(ports.insert(route.ports[0]).second) << "shared";
    }
  }
  EXPECT_EQ(static_cast<int>(ports.size()), topology.port_count());
}

TEST(Topology, TorusRoutesTakeTheShorterWayAround) {
  const Topology topology = torus_of({8});
  EXPECT_EQ(topology.route(0, 3).ports.size(), 3u);
  EXPECT_EQ(topology.route(0, 6).ports.size(), 2u);
  EXPECT_EQ(topology.route(0, 6).alpha, 2.0) << "alpha per hop";
  EXPECT_EQ(topology.route(0, 6).beta, 0.125) << "beta once: nothing is stored on the way";
  EXPECT_EQ(torus_of({4, 4}).route(0, 10).ports.size(), 4u) << "two rows and two columns away";
}

class RandomTopologies : public test::RandomTest {};

TEST_F(RandomTopologies, HaveNodesOfEqualSizeAndPortsInRange) {
  for (int i = 0; i < 50 && !HasFailure(); ++i) {
    const int nodes = static_cast<int>(random.between(1, 6));
    const int gpus = static_cast<int>(random.between(1, 8));
    const Topology topology =
        nodes_of(nodes, gpus, static_cast<int>(random.between(1, static_cast<std::size_t>(gpus))),
                 random.pick({RankOrder::kNatural, RankOrder::kInterleaved}));
    topology.validate();
    std::set<std::pair<int, int>> places;
    for (int rank = 0; rank < topology.ranks(); ++rank) {
      EXPECT_LT(topology.node_of(rank), nodes);
      EXPECT_LT(topology.local_rank_of(rank), gpus);
      EXPECT_EQ(topology.nic_of(rank) / topology.nics_per_node, topology.node_of(rank));
      places.insert({topology.node_of(rank), topology.local_rank_of(rank)});
      for (int to = 0; to < topology.ranks(); ++to) {
        if (to == rank) continue;
        for (const int port : topology.route(rank, to).ports) {
          EXPECT_GE(port, 0);
          EXPECT_LT(port, topology.port_count());
        }
      }
    }
    EXPECT_EQ(static_cast<int>(places.size()), topology.ranks()) << topology.describe();
  }
}

// The text of --simulate --------------------------------------------------------------------------

TEST(ParseTopology, TakesAPresetAndChanges) {
  const Topology topology = parse_topology("h100,nodes=64,order=interleaved,gamma=1e-12");
  EXPECT_EQ(topology.ranks(), 512);
  EXPECT_EQ(topology.order, RankOrder::kInterleaved);
  EXPECT_DOUBLE_EQ(topology.gamma, 1e-12);
  EXPECT_DOUBLE_EQ(topology.intra.bandwidth, 370e9);
  EXPECT_DOUBLE_EQ(topology.inter.bandwidth, 50e9);
  EXPECT_DOUBLE_EQ(topology.inter.latency, 14e-6);
}

TEST(ParseTopology, TakesADescriptionAlone) {
  const Topology topology = parse_topology(
      "nodes=3,gpus=4,nics=2,intra-gb-per-second=100,inter-gbps=400,intra-us=1.5,inter-us=0,"
      "order=natural");
  EXPECT_EQ(topology.nodes, 3);
  EXPECT_EQ(topology.gpus_per_node, 4);
  EXPECT_EQ(topology.nics_per_node, 2);
  EXPECT_DOUBLE_EQ(topology.intra.bandwidth, 100e9);
  EXPECT_DOUBLE_EQ(topology.inter.bandwidth, 50e9) << "400 Gb/s, InfiniBand NDR";
  EXPECT_DOUBLE_EQ(topology.intra.latency, 1.5e-6);
  EXPECT_EQ(topology.inter.latency, 0.0);
  EXPECT_EQ(parse_topology("intra-gbps=8").intra.bandwidth, 1e9);
  EXPECT_EQ(parse_topology("inter-gb-per-second=3").inter.bandwidth, 3e9);
}

TEST(ParseTopology, GivesFewerGpusFewerNics) {
  EXPECT_EQ(parse_topology("h100,gpus=4").nics_per_node, 4);
  EXPECT_EQ(parse_topology("h100-striped,gpus=4").nics_per_node, 1);
}

std::string refusal(const std::string& text) {
  return message_of<ConfigError>([&] { return parse_topology(text); });
}

TEST(ParseTopologyRefuses, UnknownMachinesAndKeysAndListsTheKnown) {
  EXPECT_THAT(refusal("b200"),
              AllOf(HasSubstr("'b200'"), HasSubstr("h100, h100-striped"), HasSubstr("nodes=")));
  EXPECT_THAT(refusal(""), HasSubstr("no known machine"));
  EXPECT_THAT(refusal("h100,node=4"), AllOf(HasSubstr("'node=4'"), HasSubstr("nodes=..., gpus=")));
  EXPECT_THAT(refusal("nodes=2,fast"), HasSubstr("'fast'"));
  EXPECT_THAT(refusal("nodes=2,nodes=4"), HasSubstr("nodes= twice"));
}

TEST(ParseTopologyRefuses, ValuesThatAreNone) {
  EXPECT_THAT(refusal("nodes=two"),
              AllOf(HasSubstr("nodes="), HasSubstr("'two' is not a whole number")));
  EXPECT_THAT(refusal("nodes=1.5"), HasSubstr("whole number"));
  EXPECT_THAT(refusal("nodes="), HasSubstr("whole number"));
  EXPECT_THAT(refusal("nodes=99999999999"), HasSubstr("whole number"));
  EXPECT_THAT(refusal("nodes=0"), AllOf(HasSubstr("nodes=0"), HasSubstr("at least 1")));
  EXPECT_THAT(refusal("gpus=-8"), HasSubstr("at least 1"));
  EXPECT_THAT(refusal("intra-us=slow"), HasSubstr("'slow' is not a number"));
  EXPECT_THAT(refusal("intra-us=-1"), HasSubstr("from 0"));
  EXPECT_THAT(refusal("inter-us=nan"), HasSubstr("inter-us=nan"));
  EXPECT_THAT(refusal("intra-gbps=0"), HasSubstr("intra-gbps=0"));
  EXPECT_THAT(refusal("inter-gb-per-second=inf"), HasSubstr("inter-gb-per-second=inf"));
  EXPECT_THAT(refusal("gamma=-1"), HasSubstr("gamma=-1"));
  EXPECT_THAT(refusal("order=random"), HasSubstr("natural or interleaved"));
}

TEST(ParseTopologyRefuses, WhatDoesNotGoTogether) {
  EXPECT_THAT(refusal("gpus=4,nics=8"), AllOf(HasSubstr("nics=8"), HasSubstr("gpus=4")));
  EXPECT_THAT(refusal("inter-gbps=400,inter-gb-per-second=50"), HasSubstr("Give one"));
  EXPECT_THAT(refusal("nodes=1000,gpus=8"), AllOf(HasSubstr("8000"), HasSubstr("at most 4096")));
  EXPECT_THAT(refusal("torus=2x2x2x2"), HasSubstr("one to three sizes"));
  EXPECT_THAT(refusal("torus=4x"), HasSubstr("whole number"));
  EXPECT_THAT(refusal("torus=4x0"), HasSubstr("at least 1"));
  EXPECT_THAT(refusal("torus=100x100"), HasSubstr("at most 4096"));
  EXPECT_THAT(refusal("torus=4x4,nodes=2"), AllOf(HasSubstr("nodes="), HasSubstr("torus")));
  EXPECT_THAT(refusal("torus=4x4,order=natural"), HasSubstr("order="));
}

TEST(TopologyRefuses, LinksThatCannotBe) {
  const auto broken = [](auto change) {
    Topology topology = nodes_of(2, 4, 4);
    change(topology);
    return message_of<ConfigError>([&] { topology.validate(); });
  };
  EXPECT_THAT(broken([](Topology& t) { t.intra.bandwidth = 0; }), HasSubstr("intra link"));
  EXPECT_THAT(broken([](Topology& t) { t.inter.latency = -1; }), HasSubstr("inter link"));
  EXPECT_THAT(broken([](Topology& t) { t.gamma = -1; }), HasSubstr("gamma"));
  EXPECT_THAT(broken([](Topology& t) { t.nodes = 0; }), HasSubstr("nodes is 0"));
  EXPECT_THAT(broken([](Topology& t) { t.torus = {2, 2}; }), HasSubstr("torus=2x2"));
}

}  // namespace
}  // namespace ultra::collectives

// Covers: chapters/02_collectives/simulator/cost_model.hpp, chapters/02_collectives/simulator/link_cost.hpp,
// chapters/02_collectives/simulator/published_bandwidths.hpp

#include "chapters/02_collectives/simulator/cost_model.hpp"

#include "chapters/02_collectives/ring_cost.hpp"
#include "chapters/02_collectives/simulator/published_bandwidths.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::collectives {
namespace {

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

TEST(CostModel, OfOneRankIsNothing) {
  for (const CollectiveCost& cost :
       {ring_all_reduce_cost(1, kLink), recursive_doubling_all_reduce_cost(1, kLink),
        rabenseifner_all_reduce_cost(1, kLink), binomial_all_reduce_cost(1, kLink),
        linear_broadcast_cost(1, kLink), pairwise_all_to_all_cost(1, kLink),
        bruck_all_to_all_cost(1, kLink), torus_2d_all_reduce_cost(1, 1, kLink, kLink)}) {
    EXPECT_EQ(cost, CollectiveCost{});
  }
}

class CostModelOfRandomLinks : public test::RandomTest {
 protected:
  int ranks = static_cast<int>(random.between(2, 512));
  LinkCost link{.alpha = random.uniform(1e-7, 1e-4),
                .beta = random.uniform(1e-12, 1e-9),
                .gamma = random.uniform(0.0, 1e-10)};
};

TEST_F(CostModelOfRandomLinks, AgreesWithTheRingCostOfWholeChunks) {
  const std::size_t count = 64 * static_cast<std::size_t>(ranks);
  const auto bytes = static_cast<double>(4 * count);
  const auto expect_same = [&](const CollectiveCost& cost, const RingCost& exact) {
    EXPECT_NEAR(cost.seconds(bytes), exact.seconds, 1e-12 * exact.seconds) << ranks;
  };
  expect_same(ring_reduce_scatter_cost(ranks, link),
              ring_reduce_scatter_cost(ranks, count, 4, link));
  expect_same(ring_all_gather_cost(ranks, link), ring_all_gather_cost(ranks, count, 4, link));
  expect_same(ring_all_reduce_cost(ranks, link), ring_all_reduce_cost(ranks, count, 4, link));
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

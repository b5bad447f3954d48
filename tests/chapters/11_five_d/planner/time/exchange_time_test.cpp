// Exchanges by the links that they cross.
//
// Covers: chapters/11_five_d/planner/time/exchange_time.hpp
#include "chapters/11_five_d/planner/time/exchange_time.hpp"

#include <gtest/gtest.h>

namespace ultra::planner {
namespace {

Cluster cluster() {
  Cluster c = *find_cluster("dgx-h100");
  c.gpu.efficiency.network = 1;
  c.intra = {.latency = 0, .bandwidth = 400e9};
  c.inter = {.latency = 0, .bandwidth = 50e9};
  return c;
}

constexpr double kBytes = 8e9;
constexpr GroupPlacement kNode = {.ranks = 8, .per_node = 8, .nodes = 1};
constexpr GroupPlacement kAcross = {.ranks = 8, .per_node = 1, .nodes = 8};
constexpr GroupPlacement kBoth = {.ranks = 64, .per_node = 8, .nodes = 8};

TEST(ExchangeTime, RingsInsideANode) {
  EXPECT_NEAR(gather_seconds(cluster(), kNode, kBytes), kBytes * 7 / 8 / 400e9, 1e-9);
  EXPECT_NEAR(all_reduce_seconds(cluster(), kNode, kBytes), 2 * kBytes * 7 / 8 / 400e9, 1e-9);
}

TEST(ExchangeTime, OneRankPerNodeHasItsOwnNic) {
  EXPECT_NEAR(gather_seconds(cluster(), kAcross, kBytes), kBytes * 7 / 8 / 50e9, 1e-9);
}

TEST(ExchangeTime, AWholeNodeHasAllItsNics) {
  EXPECT_DOUBLE_EQ(ring_bandwidth(cluster(), kBoth), 400e9);
  Cluster few = cluster();
  few.nics_per_node = 1;
  EXPECT_DOUBLE_EQ(ring_bandwidth(few, kBoth), 50e9);
  EXPECT_DOUBLE_EQ(ring_bandwidth(few, kAcross), 50e9 / 8);  // seven others use it too
}

TEST(ExchangeTime, OneRankExchangesNothing) {
  const GroupPlacement one;
  EXPECT_EQ(gather_seconds(cluster(), one, kBytes), 0);
  EXPECT_EQ(all_reduce_seconds(cluster(), one, kBytes), 0);
  EXPECT_EQ(all_to_all_seconds(cluster(), one, kBytes, kBytes), 0);
  EXPECT_EQ(message_seconds(cluster(), one, kBytes), 0);
}

TEST(ExchangeTime, TreesForSmallMessagesOfMany) {
  Cluster slow = cluster();
  slow.inter.latency = 1e-3;
  slow.intra.latency = 1e-6;
  const GroupPlacement many{.ranks = 256, .per_node = 1, .nodes = 256};
  EXPECT_NEAR(all_reduce_seconds(slow, many, 8), 2 * 8 * 1e-3, 1e-5);  // log2(256) levels, twice
}

TEST(ExchangeTime, TokensCrossNodesThroughTheNics) {
  // Of 64 ranks, 56 are elsewhere.
  EXPECT_NEAR(all_to_all_seconds(cluster(), kBoth, kBytes, kBytes), kBytes * 56 / 64 / 50e9, 1e-9);
  EXPECT_NEAR(all_to_all_seconds(cluster(), kNode, kBytes, kBytes), kBytes * 7 / 8 / 400e9, 1e-9);
}

TEST(ExchangeTime, TpAcrossNodesIsNotNvlink) {
  const GroupPlacement two{.ranks = 16, .per_node = 8, .nodes = 2};
  Cluster c = cluster();
  c.gpu.efficiency.network = 0.5;
  EXPECT_GT(gather_seconds(c, two, kBytes), 1.9 * gather_seconds(c, kNode, kBytes));
}

}  // namespace
}  // namespace ultra::planner

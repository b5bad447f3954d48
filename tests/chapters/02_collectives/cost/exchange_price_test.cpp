// Exchanges by the links that they cross.
#include "chapters/02_collectives/cost/exchange_price.hpp"

#include <gtest/gtest.h>

namespace ultra::collectives {
namespace {

using gpu::ExchangeKind;
using replay::Cluster;
using replay::GroupPlacement;

Cluster cluster() {
  Cluster c = *replay::find_cluster("dgx-h100");
  c.gpu.efficiency.network = 1;
  c.intra = {.latency = 0, .bandwidth = 400e9};
  c.inter = {.latency = 0, .bandwidth = 50e9};
  return c;
}

constexpr double kBytes = 8e9;
constexpr GroupPlacement kNode = {.ranks = 8, .per_node = 8, .nodes = 1};
constexpr GroupPlacement kAcross = {.ranks = 8, .per_node = 1, .nodes = 8};
constexpr GroupPlacement kBoth = {.ranks = 64, .per_node = 8, .nodes = 8};

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

/// Of groups in and between nodes: what the alpha-beta model says of each kind.
TEST(ExchangePrice, OfEveryKind) {
  Cluster c = cluster();
  c.intra.latency = 2e-3;
  c.inter.latency = 5e-3;
  const auto price = [&](const GroupPlacement& group, ExchangeKind kind) {
    return exchange_seconds(c, group, kind, kBytes);
  };
  const double part = kBytes * 7 / 8 / 400e9;
  for (const ExchangeKind kind : {ExchangeKind::kAllGather, ExchangeKind::kReduceScatter,
                                  ExchangeKind::kGather, ExchangeKind::kScatter}) {
    EXPECT_NEAR(price(kNode, kind), 7 * 2e-3 + part, 1e-9) << gpu::to_string(kind);
  }
  EXPECT_NEAR(price(kNode, ExchangeKind::kAllToAll), 7 * 2e-3 + part, 1e-9);
  for (const ExchangeKind kind : {ExchangeKind::kBroadcast, ExchangeKind::kReduce}) {
    EXPECT_NEAR(price(kNode, kind), 7 * 2e-3 + kBytes / 400e9, 1e-9) << gpu::to_string(kind);
    EXPECT_NEAR(price(kAcross, kind), 3 * 5e-3 + kBytes / 50e9, 1e-9) << "log2(8) levels";
  }
  EXPECT_NEAR(price(kNode, ExchangeKind::kAllReduce), 2 * (7 * 2e-3 + part), 1e-9);
  EXPECT_NEAR(price(kNode, ExchangeKind::kBarrier), 2 * 7 * 2e-3, 1e-9);
  EXPECT_NEAR(price(kAcross, ExchangeKind::kBarrier), 2 * 3 * 5e-3, 1e-9);
  for (std::size_t kind = 0; kind < gpu::kExchangeKinds; ++kind) {
    EXPECT_EQ(price({}, static_cast<ExchangeKind>(kind)), 0) << "one rank exchanges nothing";
  }
}

}  // namespace
}  // namespace ultra::collectives

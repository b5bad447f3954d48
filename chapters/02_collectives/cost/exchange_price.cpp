#include "chapters/02_collectives/cost/exchange_price.hpp"

#include <algorithm>
#include <cmath>

#include "chapters/02_collectives/ring_cost.hpp"
#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"

namespace ultra::collectives {
namespace {

using replay::Cluster;
using replay::GroupPlacement;

/// The latency of a hop of a ring: most are inside nodes.
double mean_latency(const Cluster& cluster, const GroupPlacement& group) {
  if (group.nodes == 1) return cluster.intra.latency;
  const double crossing = real(group.nodes) / real(group.ranks);
  return crossing * cluster.inter.latency + (1 - crossing) * cluster.intra.latency;
}

LinkCost ring_link(const Cluster& cluster, const GroupPlacement& group) {
  return {.alpha = mean_latency(cluster, group), .beta = 1 / ring_bandwidth(cluster, group)};
}

}  // namespace

double ring_bandwidth(const Cluster& cluster, const GroupPlacement& group) {
  if (group.nodes == 1) return cluster.intra.bandwidth;
  return std::min(cluster.intra.bandwidth,
                  cluster.rank_network(group.nodes) * real(group.per_node));
}

double gather_seconds(const Cluster& cluster, const GroupPlacement& group, double bytes) {
  if (group.ranks == 1) return 0;
  return ring_all_gather_cost(static_cast<int>(group.ranks), static_cast<std::size_t>(bytes), 1,
                              ring_link(cluster, group))
      .seconds;
}

double tree_seconds(const Cluster& cluster, const GroupPlacement& group, double bytes) {
  if (group.ranks == 1) return 0;
  const double levels = std::ceil(std::log2(real(group.nodes)));
  return levels * cluster.inter.latency + real(group.per_node - 1) * cluster.intra.latency +
         bytes / ring_bandwidth(cluster, group);
}

double all_reduce_seconds(const Cluster& cluster, const GroupPlacement& group, double bytes) {
  if (group.ranks == 1) return 0;
  const double rings = 2 * gather_seconds(cluster, group, bytes);
  return std::min(rings, 2 * tree_seconds(cluster, group, bytes));
}

double all_to_all_seconds(const Cluster& cluster, const GroupPlacement& group, double bytes,
                          double between) {
  if (group.ranks == 1) return 0;
  const double elsewhere = real(group.ranks - std::min(group.per_node, group.ranks));
  const double near = real(std::min(group.per_node, group.ranks) - 1);
  const double inside = bytes * near / real(group.ranks) / cluster.intra.bandwidth;
  if (group.nodes == 1) return near * cluster.intra.latency + inside;
  const double crossing =
      between * elsewhere / real(group.ranks) / cluster.rank_network(group.nodes);
  return real(group.nodes - 1) * cluster.inter.latency + std::max(crossing, inside);
}

double exchange_seconds(const Cluster& cluster, const GroupPlacement& group, gpu::ExchangeKind kind,
                        double bytes) {
  switch (kind) {
    case gpu::ExchangeKind::kBroadcast:
    case gpu::ExchangeKind::kReduce:
      return tree_seconds(cluster, group, bytes);
    case gpu::ExchangeKind::kAllReduce:
      return all_reduce_seconds(cluster, group, bytes);
    case gpu::ExchangeKind::kGather:
    case gpu::ExchangeKind::kScatter:
    case gpu::ExchangeKind::kAllGather:
    case gpu::ExchangeKind::kReduceScatter:
      return gather_seconds(cluster, group, bytes);
    case gpu::ExchangeKind::kAllToAll:
      return all_to_all_seconds(cluster, group, bytes, bytes);
    case gpu::ExchangeKind::kBarrier:
      return all_reduce_seconds(cluster, group, 0);
  }
  throw InternalError("a kind of exchange has no price");
}

}  // namespace ultra::collectives

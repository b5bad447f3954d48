#pragma once
/// @file
/// What an exchange takes on the links that its group crosses, by alpha and beta.
///
/// All groups of an axis exchange at the same time. So a group has the part of its nodes' NICs that
/// falls to its ranks, and inside a node each rank its own link.

#include "common/gpu/meta/tape.hpp"
#include "common/replay/cluster/cluster.hpp"
#include "common/replay/cluster/placement.hpp"

namespace ultra::collectives {

/// @brief Seconds until every rank has `bytes` bytes, of which it had its part: a ring.
/// @param bytes  S, of the whole array.
[[nodiscard]] double gather_seconds(const replay::Cluster& cluster,
                                    const replay::GroupPlacement& group, double bytes);

/// @brief Seconds until every rank has the sum of S bytes: the better of two rings, and two trees.
[[nodiscard]] double all_reduce_seconds(const replay::Cluster& cluster,
                                        const replay::GroupPlacement& group, double bytes);

/// @brief Seconds until `bytes` of each rank have reached the others, as many each.
/// @param between  bytes instead of these for those that go to other nodes: fewer, where a node gets
///                 once what several of its ranks need.
[[nodiscard]] double all_to_all_seconds(const replay::Cluster& cluster,
                                        const replay::GroupPlacement& group, double bytes,
                                        double between);

/// @brief Seconds until every rank has, or one rank has the sum of, S bytes that one rank, or each,
/// had: a tree of nodes, whose ranks follow each other in a chain; half an all-reduce's two.
[[nodiscard]] double tree_seconds(const replay::Cluster& cluster,
                                  const replay::GroupPlacement& group, double bytes);

/// @brief Seconds of a collective of any kind: a replay::PriceExchange.
///
/// Gather and scatter as gather_seconds(): the root's link carries all parts but its own, one after
/// the other. Reduce-scatter likewise. A barrier is an all-reduce of nothing.
/// @param bytes  of the whole array; of an all-to-all, of each rank's.
[[nodiscard]] double exchange_seconds(const replay::Cluster& cluster,
                                      const replay::GroupPlacement& group, gpu::ExchangeKind kind,
                                      double bytes);

/// @brief Bytes per second that a rank sends to its neighbour in a ring.
[[nodiscard]] double ring_bandwidth(const replay::Cluster& cluster,
                                    const replay::GroupPlacement& group);

}  // namespace ultra::collectives

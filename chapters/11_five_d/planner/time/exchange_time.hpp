#pragma once
/// @file
/// What an exchange takes on the links that its group crosses: chapter 02's alpha-beta model.
///
/// All groups of an axis exchange at the same time. So a group has the part of its nodes' NICs that
/// falls to its ranks, and inside a node each rank its own link.

#include "chapters/11_five_d/planner/cluster/cluster.hpp"
#include "chapters/11_five_d/planner/rank_placement.hpp"

namespace ultra::planner {

/// @brief Seconds until every rank has `bytes` bytes, of which it had its part: a ring.
/// @param bytes  S, of the whole array.
[[nodiscard]] double gather_seconds(const Cluster& cluster, const GroupPlacement& group,
                                    double bytes);

/// @brief Seconds until every rank has the sum of S bytes: the better of two rings, and two trees.
[[nodiscard]] double all_reduce_seconds(const Cluster& cluster, const GroupPlacement& group,
                                        double bytes);

/// @brief Seconds until `bytes` of each rank have reached the others, as many each.
/// @param between  bytes instead of these for those that go to other nodes: fewer, where a node gets
///                 once what several of its ranks need.
[[nodiscard]] double all_to_all_seconds(const Cluster& cluster, const GroupPlacement& group,
                                        double bytes, double between);

/// @brief Seconds of one message from each rank to the next of its group.
[[nodiscard]] double message_seconds(const Cluster& cluster, const GroupPlacement& group,
                                     double bytes);

/// @brief Bytes per second that a rank sends to its neighbour in a ring.
[[nodiscard]] double ring_bandwidth(const Cluster& cluster, const GroupPlacement& group);

}  // namespace ultra::planner

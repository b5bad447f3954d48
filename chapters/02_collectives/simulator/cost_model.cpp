#include "chapters/02_collectives/simulator/cost_model.hpp"

#include <bit>

#include "chapters/02_collectives/steps.hpp"

namespace ultra::collectives {
namespace {

double log2_up(int ranks) { return doubling_rounds(ranks); }

int power_of_two_below(int ranks) {
  return static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)));
}

/// (n-1)/n: the share of the array that is not a rank's own.
double others_share(int ranks) { return (ranks - 1.0) / ranks; }

/// What it takes to bring the ranks beyond the largest power of two in, and the result back.
CollectiveCost fold_cost(int ranks, const LinkCost& link) {
  if (power_of_two_below(ranks) == ranks) return {};
  return {.latency = 2.0 * link.alpha, .seconds_per_byte = 2.0 * link.beta + link.gamma};
}

}  // namespace

CollectiveCost ring_reduce_scatter_cost(int ranks, const LinkCost& link) {
  return {(ranks - 1) * link.alpha, others_share(ranks) * (link.beta + link.gamma)};
}

CollectiveCost ring_all_gather_cost(int ranks, const LinkCost& link) {
  return {(ranks - 1) * link.alpha, others_share(ranks) * link.beta};
}

CollectiveCost recursive_halving_cost(int ranks, const LinkCost& link) {
  return {log2_up(ranks) * link.alpha, others_share(ranks) * (link.beta + link.gamma)};
}

CollectiveCost recursive_doubling_all_gather_cost(int ranks, const LinkCost& link) {
  return {log2_up(ranks) * link.alpha, others_share(ranks) * link.beta};
}

CollectiveCost ring_all_reduce_cost(int ranks, const LinkCost& link) {
  return ring_reduce_scatter_cost(ranks, link) + ring_all_gather_cost(ranks, link);
}

CollectiveCost recursive_doubling_all_reduce_cost(int ranks, const LinkCost& link) {
  const double rounds = log2_up(power_of_two_below(ranks));
  return CollectiveCost{rounds * link.alpha, rounds * (link.beta + link.gamma)} +
         fold_cost(ranks, link);
}

CollectiveCost rabenseifner_all_reduce_cost(int ranks, const LinkCost& link) {
  const int core = power_of_two_below(ranks);
  return recursive_halving_cost(core, link) + recursive_doubling_all_gather_cost(core, link) +
         fold_cost(ranks, link);
}

CollectiveCost binomial_all_reduce_cost(int ranks, const LinkCost& link) {
  return binomial_reduce_cost(ranks, link) + binomial_broadcast_cost(ranks, link);
}

CollectiveCost double_tree_all_reduce_cost(int ranks, int segments, const LinkCost& link) {
  const double rounds = 4.0 * (log2_up(ranks) + segments);
  return {rounds * link.alpha, rounds / (2.0 * segments) * (link.beta + link.gamma / 2.0)};
}

CollectiveCost torus_2d_all_reduce_cost(int rows, int columns, const LinkCost& between_rows,
                                        const LinkCost& within_row) {
  return ring_reduce_scatter_cost(columns, within_row) +
         ring_all_reduce_cost(rows, between_rows).of_share(1.0 / columns) +
         ring_all_gather_cost(columns, within_row);
}

CollectiveCost torus_3d_all_reduce_cost(int size_z, int size_y, int size_x, const LinkCost& link) {
  return ring_reduce_scatter_cost(size_x, link) +
         torus_2d_all_reduce_cost(size_z, size_y, link, link).of_share(1.0 / size_x) +
         ring_all_gather_cost(size_x, link);
}

CollectiveCost mesh_2d_all_reduce_cost(int rows, int columns, const LinkCost& between_rows,
                                       const LinkCost& within_row) {
  return ring_all_reduce_cost(columns, within_row) + ring_all_reduce_cost(rows, between_rows);
}

CollectiveCost linear_broadcast_cost(int ranks, const LinkCost& link) {
  return {(ranks - 1) * link.alpha, (ranks - 1) * link.beta};
}

CollectiveCost binomial_broadcast_cost(int ranks, const LinkCost& link) {
  return {log2_up(ranks) * link.alpha, log2_up(ranks) * link.beta};
}

CollectiveCost binomial_reduce_cost(int ranks, const LinkCost& link) {
  return {log2_up(ranks) * link.alpha, log2_up(ranks) * (link.beta + link.gamma)};
}

CollectiveCost binomial_gather_cost(int ranks, const LinkCost& link) {
  return {log2_up(ranks) * link.alpha, others_share(ranks) * link.beta};
}

CollectiveCost scatter_all_gather_broadcast_cost(int ranks, const LinkCost& link) {
  return binomial_gather_cost(ranks, link) + ring_all_gather_cost(ranks, link);
}

CollectiveCost reduce_scatter_gather_cost(int ranks, const LinkCost& link) {
  return ring_reduce_scatter_cost(ranks, link) + binomial_gather_cost(ranks, link);
}

CollectiveCost pairwise_all_to_all_cost(int ranks, const LinkCost& link) {
  return {(ranks - 1) * link.alpha, others_share(ranks) * link.beta};
}

CollectiveCost bruck_all_to_all_cost(int ranks, const LinkCost& link) {
  int chunks = 0;  // sent in all rounds: a chunk takes as many as its distance has bits
  for (int distance = 1; distance < ranks; ++distance) {
    chunks += std::popcount(static_cast<unsigned>(distance));
  }
  return {log2_up(ranks) * link.alpha, chunks * link.beta / ranks};
}

CollectiveCost dissemination_barrier_cost(int ranks, const LinkCost& link) {
  return {log2_up(ranks) * link.alpha, 0.0};
}

double bus_factor(OpKind op, int ranks) {
  switch (op) {
    case OpKind::kAllReduce:
      return 2.0 * others_share(ranks);
    case OpKind::kReduceScatter:
    case OpKind::kAllGather:
    case OpKind::kAllToAll:
    case OpKind::kGather:
    case OpKind::kScatter:
      return others_share(ranks);
    case OpKind::kBroadcast:
    case OpKind::kReduce:
    case OpKind::kSend:
    case OpKind::kRecv:
      return 1.0;
    default:
      return 0.0;
  }
}

double algorithm_bandwidth(double bytes, double seconds) {
  return seconds > 0.0 ? bytes / seconds : 0.0;
}

double bus_bandwidth(OpKind op, int ranks, double bytes, double seconds) {
  return algorithm_bandwidth(bytes, seconds) * bus_factor(op, ranks);
}

}  // namespace ultra::collectives

#include "chapters/05_tensor_sequence_parallel/scaling/exchange_cost.hpp"

#include <fmt/format.h>

#include "chapters/02_collectives/choice/algorithm_table.hpp"
#include "chapters/02_collectives/ring_all_gather.hpp"
#include "chapters/02_collectives/ring_reduce_scatter.hpp"
#include "chapters/02_collectives/simulator/link_simulator.hpp"
#include "common/base/errors.hpp"
#include "common/comm/collectives/schedule.hpp"

namespace ultra::tensor_parallel {
namespace {

/// The two rings of a position, and what travels on them.
struct TwoLevels {
  comm::Group inside;   ///< the members on its node
  comm::Group across;   ///< one member per node: those at the same place
  comm::Chunks chunks;  ///< of the range, one per place
  comm::Chunks pieces;  ///< of the position's chunk, one per node
};

TwoLevels two_levels(const comm::Group& group, Range range, int ranks_per_node) {
  if (ranks_per_node < 1 || group.size() % ranks_per_node != 0) {
    throw ConfigError(fmt::format(
        "two levels need the same number of ranks on every node: {} ranks are not a multiple of {} "
        "per node. Use a ring, which takes any number.",
        group.size(), ranks_per_node));
  }
  const int node = group.rank / ranks_per_node;
  const int place = group.rank % ranks_per_node;
  const int num_nodes = group.size() / ranks_per_node;
  TwoLevels levels{.inside = {.ranks = {}, .rank = place},
                   .across = {.ranks = {}, .rank = node},
                   .chunks = comm::Chunks::even(range, ranks_per_node),
                   .pieces = {}};
  for (int i = 0; i < ranks_per_node; ++i) {
    levels.inside.ranks.push_back(group.at(node * ranks_per_node + i));
  }
  for (int k = 0; k < num_nodes; ++k) {
    levels.across.ranks.push_back(group.at(k * ranks_per_node + place));
  }
  levels.pieces = comm::Chunks::even(levels.chunks[place], num_nodes);
  return levels;
}

}  // namespace

Range two_level_part(const comm::Group& group, Range range, int ranks_per_node) {
  const TwoLevels levels = two_levels(group, range, ranks_per_node);
  return levels.pieces[levels.across.rank];
}

comm::Lane two_level_all_gather(const comm::Group& group, Range range, int ranks_per_node) {
  const TwoLevels levels = two_levels(group, range, ranks_per_node);
  comm::Lane lane = collectives::ring_all_gather(levels.across, levels.pieces);
  comm::append(lane, collectives::ring_all_gather(levels.inside, levels.chunks));
  return lane;
}

comm::Lane two_level_reduce_scatter(const comm::Group& group, Range range, int ranks_per_node) {
  const TwoLevels levels = two_levels(group, range, ranks_per_node);
  comm::Lane lane = collectives::ring_reduce_scatter(levels.inside, levels.chunks);
  comm::append(lane, collectives::ring_reduce_scatter(levels.across, levels.pieces));
  return lane;
}

namespace {

using collectives::LinkKind;
using collectives::Topology;

/// One rank's steps: chapter 02's but for the two halves of its two-level all-reduce.
comm::Schedule schedule_of(const Exchange& exchange, ExchangeAlgorithm algorithm,
                           const comm::Group& group, int ranks_per_node) {
  const auto& [op, count, element_bytes] = exchange;
  if (op == OpKind::kAllReduce || algorithm == ExchangeAlgorithm::kRing) {
    return collectives::find_algorithm(op, to_string(algorithm))
        .schedule(collectives::CollectiveRequest::of(op, group, count,
                                                     {.ranks_per_node = ranks_per_node}));
  }
  const auto two_level = op == OpKind::kAllGather ? two_level_all_gather : two_level_reduce_scatter;
  return {.lanes = {two_level(group, {0, count}, ranks_per_node)}};
}

}  // namespace

std::string_view to_string(ExchangeAlgorithm algorithm) {
  return algorithm == ExchangeAlgorithm::kRing ? "ring" : "two-level";
}

ExchangeCost simulate_exchange(const Exchange& exchange, ExchangeAlgorithm algorithm,
                               const Topology& machine) {
  const OpKind op = exchange.op;
  if (op != OpKind::kAllReduce && op != OpKind::kAllGather && op != OpKind::kReduceScatter) {
    throw ConfigError(fmt::format(
        "tensor parallelism exchanges by all_reduce, all_gather or reduce_scatter, not by {}.",
        ultra::to_string(op)));
  }
  const collectives::SimulationResult result =
      collectives::simulate(machine, exchange.element_bytes, [&](int rank) {
        return schedule_of(exchange, algorithm, comm::Group::all(rank, machine.ranks()),
                           machine.gpus_per_node);
      });
  const double ranks = machine.ranks();
  return {.seconds = result.seconds,
          .intra_bytes = static_cast<double>(result.bytes_over(LinkKind::kIntra)) / ranks,
          .inter_bytes = static_cast<double>(result.bytes_over(LinkKind::kInter)) / ranks};
}

}  // namespace ultra::tensor_parallel

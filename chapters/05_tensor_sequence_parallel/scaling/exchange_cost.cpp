#include "chapters/05_tensor_sequence_parallel/scaling/exchange_cost.hpp"

#include <fmt/format.h>

#include "chapters/02_collectives/choice/algorithm_table.hpp"
#include "chapters/02_collectives/simulator/link_simulator.hpp"
#include "chapters/05_tensor_sequence_parallel/scaling/two_level_gather.hpp"
#include "common/base/errors.hpp"
#include "common/comm/collectives/schedule.hpp"

namespace ultra::tensor_parallel {
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

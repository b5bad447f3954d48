#include "chapters/05_tensor_sequence_parallel/scaling/exchange_cost.hpp"

#include <fmt/format.h>

#include <utility>

#include "chapters/02_collectives/ring_all_gather.hpp"
#include "chapters/02_collectives/ring_all_reduce.hpp"
#include "chapters/02_collectives/ring_reduce_scatter.hpp"
#include "chapters/02_collectives/simulator/link_simulator.hpp"
#include "chapters/02_collectives/two_level_all_reduce.hpp"
#include "chapters/05_tensor_sequence_parallel/scaling/two_level_gather.hpp"
#include "common/base/errors.hpp"
#include "common/comm/collectives/schedule.hpp"

namespace ultra::tensor_parallel {
namespace {

using collectives::LinkKind;
using collectives::Topology;

comm::Lane ring(OpKind op, const comm::Group& group, Range range) {
  const comm::Chunks chunks = comm::Chunks::even(range, group.size());
  if (op == OpKind::kAllReduce) return collectives::ring_all_reduce(group, chunks);
  if (op == OpKind::kAllGather) return collectives::ring_all_gather(group, chunks);
  return collectives::ring_reduce_scatter(group, chunks);
}

comm::Lane two_level(OpKind op, const comm::Group& group, Range range, int ranks_per_node) {
  if (op == OpKind::kAllReduce) {
    return collectives::two_level_all_reduce(group, range, ranks_per_node);
  }
  if (op == OpKind::kAllGather) return two_level_all_gather(group, range, ranks_per_node);
  return two_level_reduce_scatter(group, range, ranks_per_node);
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
  const Range range{0, exchange.count};
  const auto schedule_of = [&](int rank) {
    const comm::Group group = comm::Group::all(rank, machine.ranks());
    comm::Schedule schedule;
    schedule.lanes.push_back(algorithm == ExchangeAlgorithm::kRing
                                 ? ring(op, group, range)
                                 : two_level(op, group, range, machine.gpus_per_node));
    return schedule;
  };
  const collectives::SimulationResult result =
      collectives::simulate(machine, exchange.element_bytes, schedule_of);
  const double ranks = machine.ranks();
  return {.seconds = result.seconds,
          .intra_bytes = static_cast<double>(result.bytes_over(LinkKind::kIntra)) / ranks,
          .inter_bytes = static_cast<double>(result.bytes_over(LinkKind::kInter)) / ranks};
}

}  // namespace ultra::tensor_parallel

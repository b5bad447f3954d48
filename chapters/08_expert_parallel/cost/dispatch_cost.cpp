#include "chapters/08_expert_parallel/cost/dispatch_cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "chapters/02_collectives/algorithms/all_to_all.hpp"
#include "chapters/02_collectives/simulator/link_simulator.hpp"
#include "chapters/02_collectives/steps.hpp"
#include "common/base/errors.hpp"

namespace ultra::expert_parallel {
namespace {

using collectives::exchange_step;
using collectives::LinkKind;
using collectives::local_step;
using comm::Block;
using comm::Buffer;

std::size_t rounded_up(double rows) { return static_cast<std::size_t>(std::ceil(rows - 1e-9)); }

std::size_t size_of_count(int count) { return static_cast<std::size_t>(count); }

void validate(const DispatchQuestion& q) {
  const auto ranks = size_of_count(q.machine.ranks());
  const auto nodes = size_of_count(q.machine.nodes);
  if (q.num_experts % ranks != 0) {
    throw ConfigError(fmt::format(
        "{0} experts are no multiple of {1} ranks: {0} % {1} = {2}. Choose nodes whose ranks "
        "divide {0}.",
        q.num_experts, ranks, q.num_experts % ranks));
  }
  if (q.node_limit > nodes) {
    throw ConfigError(
        fmt::format("a limit of {} nodes is above the {} nodes that there are. "
                    "Lower it.",
                    q.node_limit, nodes));
  }
  const std::size_t reached = q.node_limit == 0 ? nodes : q.node_limit;
  if (q.top_k > reached * (q.num_experts / nodes)) {
    throw ConfigError(fmt::format(
        "a token chooses {} experts, and a limit of {} nodes leaves it {}. Raise the limit.",
        q.top_k, reached, reached * (q.num_experts / nodes)));
  }
}

/// Elements of each message of a direct dispatch.
std::size_t direct_chunk(const DispatchQuestion& q) {
  const double rows = static_cast<double>(q.tokens * q.top_k) / q.machine.ranks();
  return rounded_up(rows) * q.hidden;
}

comm::Schedule direct(const DispatchQuestion& q, int rank) {
  const std::vector<std::size_t> counts(size_of_count(q.machine.ranks()), direct_chunk(q));
  const comm::Chunks chunks = comm::Chunks::of(counts);
  return {.lanes = {collectives::pairwise_all_to_all(comm::Group::all(rank, q.machine.ranks()),
                                                     chunks, chunks)}};
}

/// Between nodes a row per node, then inside the node a row per choice.
comm::Schedule per_node(const DispatchQuestion& q, int rank) {
  const int nodes = q.machine.nodes;
  const int g = q.machine.gpus_per_node;
  const auto all = size_of_count(nodes);
  const double reached =
      expected_nodes(q.node_limit == 0 ? all : q.node_limit, q.num_experts / all, q.top_k);
  const std::size_t across = rounded_up(static_cast<double>(q.tokens) * reached / nodes) * q.hidden;
  const std::size_t inside = rounded_up(static_cast<double>(q.tokens * q.top_k) / g) * q.hidden;
  const auto block = [](std::size_t count, comm::Buffer buffer) {
    return comm::Block{{0, count}, buffer};
  };
  const int node = rank / g;
  const int local = rank % g;
  comm::Lane lane;
  for (int s = 1; s < nodes; ++s) {
    lane.push_back(collectives::exchange_step(
        (node + s) % nodes * g + local, block(across, comm::Buffer::kInput),
        (node + nodes - s) % nodes * g + local, block(across, comm::Buffer::kScratch)));
  }
  for (int s = 1; s < g; ++s) {
    lane.push_back(collectives::exchange_step(
        node * g + (local + s) % g, block(inside, comm::Buffer::kScratch),
        node * g + (local + g - s) % g, block(inside, comm::Buffer::kData)));
  }
  return {.lanes = {lane}, .scratch_count = std::max(across, inside)};
}

DispatchCost cost_of(DispatchWay way, const DispatchQuestion& q) {
  const collectives::SimulationResult run =
      collectives::simulate(q.machine, q.element_bytes, [&](int rank) {
        switch (way) {
          case DispatchWay::kDirect:
            return direct(q, rank);
          case DispatchWay::kTwoLevel:
            return two_level_all_to_all(comm::Group::all(rank, q.machine.ranks()), direct_chunk(q),
                                        q.machine.gpus_per_node);
          case DispatchWay::kPerNode:
            break;
        }
        return per_node(q, rank);
      });
  const auto ranks = size_of_count(q.machine.ranks());
  return {.way = way,
          .seconds = run.seconds,
          .between_nodes = run.bytes_over(LinkKind::kInter) / ranks,
          .inside_node = run.bytes_over(LinkKind::kIntra) / ranks};
}

/// Places of chunks, counted in chunks.
class Places {
 public:
  Places(std::size_t chunk, int ranks) : chunk_(chunk), ranks_(ranks) {}

  [[nodiscard]] Block input(int first) const { return at(Buffer::kInput, first, 1); }
  [[nodiscard]] Block data(int first, int count) const { return at(Buffer::kData, first, count); }
  /// What is packed for a step, and what arrives, of both levels.
  [[nodiscard]] Block packed(int first, int count) const {
    return at(Buffer::kScratch, first, count);
  }
  [[nodiscard]] Block arrived(int first, int count) const {
    return at(Buffer::kScratch, ranks_ + first, count);
  }
  [[nodiscard]] Block repacked(int first, int count) const {
    return at(Buffer::kScratch, 2 * ranks_ + first, count);
  }
  [[nodiscard]] std::size_t scratch() const {
    return static_cast<std::size_t>(3 * ranks_) * chunk_;
  }

 private:
  [[nodiscard]] Block at(Buffer buffer, int first, int count) const {
    const auto begin = static_cast<std::size_t>(first) * chunk_;
    return {{begin, begin + static_cast<std::size_t>(count) * chunk_}, buffer};
  }

  std::size_t chunk_;
  int ranks_;
};

}  // namespace

comm::Schedule two_level_all_to_all(const comm::Group& group, std::size_t chunk,
                                    int ranks_per_node) {
  const int ranks = group.size();
  const int g = ranks_per_node;
  if (g < 1 || ranks % g != 0) {
    throw ConfigError(
        fmt::format("{} ranks are no whole nodes of {}. Choose a divisor.", ranks, g));
  }
  const int nodes = ranks / g;
  const int node = group.rank / g;
  const int local = group.rank % g;
  const int self = collectives::own_rank(group);
  const Places places(chunk, ranks);
  comm::Lane lane;

  // Inside the node: to member j what is for the members j of all nodes.
  for (int j = 0; j < g; ++j) {
    for (int n = 0; n < nodes; ++n) {
      lane.push_back(local_step(self, places.input(n * g + j), places.packed(j * nodes + n, 1)));
    }
  }
  const auto local_peer = [&](int j) { return group.at(node * g + (j + g) % g); };
  for (int s = 0; s < g; ++s) {
    const int to = (local + s) % g;
    const int from = (local + g - s) % g;
    lane.push_back(exchange_step(local_peer(to), places.packed(to * nodes, nodes), local_peer(from),
                                 places.arrived(from * nodes, nodes)));
  }

  // Between nodes: to this rank's fellow on node n what all ranks of this node have for it.
  for (int n = 0; n < nodes; ++n) {
    for (int i = 0; i < g; ++i) {
      lane.push_back(
          local_step(self, places.arrived(i * nodes + n, 1), places.repacked(n * g + i, 1)));
    }
  }
  for (int s = 0; s < nodes; ++s) {
    const int to = (node + s) % nodes;
    const int from = (node + nodes - s) % nodes;
    lane.push_back(exchange_step(group.at(to * g + local), places.repacked(to * g, g),
                                 group.at(from * g + local), places.data(from * g, g)));
  }
  return {.lanes = {lane}, .scratch_count = places.scratch()};
}

const char* to_string(DispatchWay way) {
  constexpr const char* kNames[] = {"direct", "two-level", "per node"};
  return kNames[static_cast<int>(way)];
}

double expected_nodes(std::size_t nodes, std::size_t experts_per_node, std::size_t top_k) {
  const auto all = static_cast<double>(nodes * experts_per_node);
  double missed = 1;  // the chance that none of the choices is on a given node
  for (std::size_t i = 0; i < top_k; ++i) {
    const auto left = all - static_cast<double>(i);
    missed *= std::max(0.0, left - static_cast<double>(experts_per_node)) / left;
  }
  return static_cast<double>(nodes) * (1 - missed);
}

std::vector<DispatchCost> dispatch_costs(const DispatchQuestion& question) {
  validate(question);
  std::vector<DispatchCost> costs;
  for (const DispatchWay way :
       {DispatchWay::kDirect, DispatchWay::kTwoLevel, DispatchWay::kPerNode}) {
    costs.push_back(cost_of(way, question));
  }
  return costs;
}

}  // namespace ultra::expert_parallel

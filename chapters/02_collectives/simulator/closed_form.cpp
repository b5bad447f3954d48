#include "chapters/02_collectives/simulator/closed_form.hpp"

#include <array>
#include <bit>

namespace ultra::collectives {
namespace {

/// An algorithm whose cost depends on nothing but the number of ranks and the links, all equal.
struct UniformForm {
  OpKind op;
  std::string_view name;
  CollectiveCost (*cost)(int ranks, const LinkCost& link);
};

constexpr auto kUniformForms = std::to_array<UniformForm>({
    {OpKind::kBroadcast, "binomial", binomial_broadcast_cost},
    {OpKind::kBroadcast, "scatter-all-gather", scatter_all_gather_broadcast_cost},
    {OpKind::kBroadcast, "linear", linear_broadcast_cost},
    {OpKind::kReduce, "binomial", binomial_reduce_cost},
    {OpKind::kReduce, "reduce-scatter-gather", reduce_scatter_gather_cost},
    {OpKind::kAllReduce, "ring", ring_all_reduce_cost},
    {OpKind::kAllReduce, "pairwise", ring_all_reduce_cost},
    {OpKind::kAllReduce, "pairwise-tree", ring_all_reduce_cost},
    {OpKind::kAllReduce, "recursive-doubling", recursive_doubling_all_reduce_cost},
    {OpKind::kAllReduce, "halving-doubling", rabenseifner_all_reduce_cost},
    {OpKind::kAllReduce, "rabenseifner", rabenseifner_all_reduce_cost},
    {OpKind::kAllReduce, "binomial", binomial_all_reduce_cost},
    {OpKind::kGather, "binomial", binomial_gather_cost},
    {OpKind::kScatter, "binomial", binomial_gather_cost},
    {OpKind::kAllGather, "ring", ring_all_gather_cost},
    {OpKind::kAllGather, "recursive-doubling", recursive_doubling_all_gather_cost},
    {OpKind::kReduceScatter, "ring", ring_reduce_scatter_cost},
    {OpKind::kReduceScatter, "pairwise", ring_reduce_scatter_cost},
    {OpKind::kReduceScatter, "pairwise-tree", ring_reduce_scatter_cost},
    {OpKind::kReduceScatter, "recursive-halving", recursive_halving_cost},
    {OpKind::kAllToAll, "pairwise", pairwise_all_to_all_cost},
    {OpKind::kAllToAll, "bruck", bruck_all_to_all_cost},
    {OpKind::kBarrier, "dissemination", dissemination_barrier_cost},
});

/// The one kind of link that all messages take, if there is one.
std::optional<LinkCost> uniform_link(const Topology& topology) {
  if (topology.is_torus()) return std::nullopt;
  if (topology.nodes == 1) return topology.cost(LinkKind::kIntra);
  if (topology.gpus_per_node == 1) return topology.cost(LinkKind::kInter);
  return std::nullopt;
}

/// Whether a form for powers of two holds: binomial gathers of other sizes have uneven subtrees.
bool needs_power_of_two(std::string_view name, OpKind op) {
  return op == OpKind::kGather || op == OpKind::kScatter || name == "scatter-all-gather" ||
         name == "reduce-scatter-gather";
}

/// The links of a grid's two dimensions: along rows, and between them.
struct GridLinks {
  LinkCost within_row, between_rows;
};

/// The links that a grid's messages have for themselves; none where they share some.
std::optional<GridLinks> grid_links(const Topology& topology, const std::vector<int>& grid) {
  if (const auto link = uniform_link(topology)) return GridLinks{*link, *link};
  const LinkCost intra = topology.cost(LinkKind::kIntra);
  if (topology.is_torus()) {
    if (grid == topology.torus) return GridLinks{intra, intra};
    return std::nullopt;
  }
  const bool rows_are_nodes = grid == std::vector<int>{topology.nodes, topology.gpus_per_node} &&
                              topology.order == RankOrder::kNatural &&
                              topology.nics_per_node == topology.gpus_per_node;
  if (rows_are_nodes) return GridLinks{intra, topology.cost(LinkKind::kInter)};
  return std::nullopt;
}

std::optional<CollectiveCost> grid_form(std::string_view name, const Topology& topology,
                                        const Tuning& tuning) {
  const int dimensions = name == "torus-3d" ? 3 : 2;
  std::vector<int> grid =
      tuning.grid.empty() ? balanced_grid(topology.ranks(), dimensions) : tuning.grid;
  if (name == "two-level") {
    grid = {topology.ranks() / tuning.ranks_per_node, tuning.ranks_per_node};
  }
  const std::optional<GridLinks> links = grid_links(topology, grid);
  if (!links || grid.size() != static_cast<std::size_t>(dimensions)) return std::nullopt;
  const auto& [within_row, between_rows] = *links;
  if (dimensions == 3) return torus_3d_all_reduce_cost(grid[0], grid[1], grid[2], within_row);
  const auto form = name == "mesh-2d" ? mesh_2d_all_reduce_cost : torus_2d_all_reduce_cost;
  return form(grid[0], grid[1], between_rows, within_row);
}

constexpr std::string_view kRing = "bus bandwidth of the ring, about";
constexpr std::string_view kIssue212 = "NVIDIA nccl-tests issue 212, a maintainer's answer";
constexpr std::string_view kMedian = "median between nodes";
constexpr std::string_view kPlaybook =
    "the Ultra-Scale Playbook, figure of inter-node all-reduce bandwidth (8 H100 per node, EFA); "
    "its seven points read as 1, 2, 4, ..., 64 nodes";

constexpr auto kPublished = std::to_array<PublishedBandwidth>({
    {"8 x H100, NVLink 4", "line rate per direction", OpKind::kSend, 1, 8, 450.0, kIssue212},
    {"8 x H100, NVLink 4", kRing, OpKind::kAllReduce, 1, 8, 370.0, kIssue212},
    {"8 x H100, NVLink 4", "peak bus bandwidth with NVLS: the switch reduces", OpKind::kAllReduce,
     1, 8, 480.0, "NVIDIA nccl-tests issue 212; nccl issue 1374"},
    {"8 x H200", "peak bus bandwidth", OpKind::kAllReduce, 1, 8, 475.0,
     "NVIDIA nccl-tests issue 272"},
    {"8 x H800", "bus bandwidth, about", OpKind::kAllReduce, 1, 8, 215.0, "NVIDIA nccl issue 1374"},
    {"2 x H100 PCIe, NVLink bridge", "bus bandwidth", OpKind::kAllReduce, 1, 2, 116.0,
     "NVIDIA, NCCL issue 1161"},
    {"8 x H100 per node, EFA", kMedian, OpKind::kAllReduce, 1, 8, 436.0, kPlaybook},
    {"8 x H100 per node, EFA", kMedian, OpKind::kAllReduce, 2, 8, 361.7, kPlaybook},
    {"8 x H100 per node, EFA", kMedian, OpKind::kAllReduce, 4, 8, 160.1, kPlaybook},
    {"8 x H100 per node, EFA", kMedian, OpKind::kAllReduce, 8, 8, 99.6, kPlaybook},
    {"8 x H100 per node, EFA", kMedian, OpKind::kAllReduce, 16, 8, 84.7, kPlaybook},
    {"8 x H100 per node, EFA", kMedian, OpKind::kAllReduce, 32, 8, 64.9, kPlaybook},
    {"8 x H100 per node, EFA", kMedian, OpKind::kAllReduce, 64, 8, 32.9, kPlaybook},
});

}  // namespace

std::optional<CollectiveCost> closed_form(OpKind op, std::string_view name,
                                          const Topology& topology, const Tuning& tuning) {
  if (op == OpKind::kAllReduce &&
      (name == "two-level" || name == "torus-2d" || name == "torus-3d" || name == "mesh-2d")) {
    return grid_form(name, topology, tuning);
  }
  const std::optional<LinkCost> link = uniform_link(topology);
  const int ranks = topology.ranks();
  if (!link) return std::nullopt;
  if (needs_power_of_two(name, op) && !std::has_single_bit(static_cast<unsigned>(ranks))) {
    return std::nullopt;
  }
  for (const UniformForm& form : kUniformForms) {
    if (form.op == op && form.name == name) return form.cost(ranks, *link);
  }
  return std::nullopt;
}

Tuning tuning_for(std::string_view name, const Topology& topology) {
  Tuning tuning{.ranks_per_node = topology.is_torus() ? 1 : topology.gpus_per_node};
  const std::size_t dimensions = name == "torus-3d" ? 3 : 2;
  if (topology.is_torus()) {
    if (topology.torus.size() == dimensions) tuning.grid = topology.torus;
  } else if (dimensions == 2 && topology.nodes > 1) {
    tuning.grid = {topology.nodes, topology.gpus_per_node};
  }
  return tuning;
}

std::span<const PublishedBandwidth> published_bandwidths() { return kPublished; }

Json published_to_json() {
  Json json = Json::array();
  for (const PublishedBandwidth& row : kPublished) {
    json.push_back({{"machine", row.machine},
                    {"what", row.what},
                    {"op", to_string(row.op)},
                    {"nodes", row.nodes},
                    {"gpus_per_node", row.gpus_per_node},
                    {"gb_per_second", row.gb_per_second},
                    {"source", row.source}});
  }
  return json;
}

}  // namespace ultra::collectives

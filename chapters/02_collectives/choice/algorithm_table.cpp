#include "chapters/02_collectives/choice/algorithm_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <numeric>

#include "chapters/02_collectives/algorithms/all_reduces.hpp"
#include "chapters/02_collectives/algorithms/all_to_all.hpp"
#include "chapters/02_collectives/algorithms/pairwise_reduction.hpp"
#include "chapters/02_collectives/algorithms/rooted.hpp"
#include "chapters/02_collectives/binomial_broadcast.hpp"
#include "chapters/02_collectives/halving_doubling.hpp"
#include "chapters/02_collectives/ring_all_gather.hpp"
#include "chapters/02_collectives/ring_all_reduce.hpp"
#include "chapters/02_collectives/ring_reduce_scatter.hpp"
#include "chapters/02_collectives/two_level_all_reduce.hpp"
#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/base/text.hpp"

namespace ultra::collectives {
namespace {

using comm::Lane;
using comm::Schedule;
using Request = CollectiveRequest;

constexpr int kMostSegments = 64;  // more only add messages

Schedule one_lane(Lane lane) { return {.lanes = {std::move(lane)}}; }

std::string always(const Request& /*request*/) { return {}; }

std::string needs_power_of_two(const Request& request) {
  const int size = request.group.size();
  if (std::has_single_bit(static_cast<unsigned>(size))) return {};
  return fmt::format("it needs a power of two of ranks, found {}", size);
}

std::string needs_whole_nodes(const Request& request) {
  const int size = request.group.size();
  const int per_node = request.tuning.ranks_per_node;
  if (per_node >= 1 && size % per_node == 0) return {};
  return fmt::format("it needs full nodes, found {} ranks with {} per node", size, per_node);
}

template <int kDimensions>
std::vector<int> grid_of(const Request& request) {
  const std::vector<int>& given = request.tuning.grid;
  return given.empty() ? balanced_grid(request.group.size(), kDimensions) : given;
}

template <int kDimensions>
std::string needs_grid(const Request& request) {
  const std::vector<int> grid = grid_of<kDimensions>(request);
  const int size = request.group.size();
  const bool fits =
      grid.size() == kDimensions &&
      std::all_of(grid.begin(), grid.end(), [](int e) { return e > 0; }) &&
      std::accumulate(grid.begin(), grid.end(), 1LL, std::multiplies<long long>()) == size;
  if (fits) return {};
  return fmt::format("it needs a grid of {} dimensions and {} places, found {}", kDimensions, size,
                     fmt::join(grid, " x "));
}

/// How many segments cut `parts` equal parts of the message to segment_bytes each.
int segments_of(const Request& request, int parts) {
  if (request.tuning.segments != 0) return request.tuning.segments;
  const std::size_t segment = std::max<std::size_t>(request.tuning.segment_bytes, 1);
  const std::size_t part = request.bytes() / static_cast<std::size_t>(parts);
  return static_cast<int>(std::clamp<std::size_t>(ceil_div(part, segment), 1, kMostSegments));
}

Range whole(const Request& request) { return request.chunks.whole(); }

constexpr auto kBroadcast = std::to_array<NamedAlgorithm>({
    {"binomial", "down a binomial tree: ceil(log2 P) rounds",
     [](const Request& r) { return one_lane(binomial_broadcast(r.group, whole(r), r.root)); },
     always},
    {"scatter-all-gather", "scatter, then all-gather on a ring: the root sends 2 n, not n log2 P",
     [](const Request& r) { return scatter_all_gather_broadcast(r.group, r.chunks, r.root); },
     always},
    {"linear", "the root sends to each in turn: the naive baseline",
     [](const Request& r) { return one_lane(linear_broadcast(r.group, whole(r), r.root)); },
     always},
});

constexpr auto kReduce = std::to_array<NamedAlgorithm>({
    {"binomial", "up a binomial tree: ceil(log2 P) rounds",
     [](const Request& r) { return one_lane(binomial_reduce(r.group, whole(r), r.root)); }, always},
    {"reduce-scatter-gather", "reduce-scatter on a ring, then gather: for large messages",
     [](const Request& r) { return reduce_scatter_gather_reduce(r.group, r.chunks, r.root); },
     always},
});

constexpr auto kAllReduce = std::to_array<NamedAlgorithm>({
    {"ring", "reduce-scatter, then all-gather on a ring: least volume, 2 (P-1) rounds",
     [](const Request& r) { return one_lane(ring_all_reduce(r.group, r.chunks)); }, always},
    {"segmented-ring", "the ring in segments on two lanes: one combines while the other sends",
     [](const Request& r) {
       return segmented_ring_all_reduce(r.group, whole(r), segments_of(r, r.group.size()));
     },
     always},
    {"pairwise", "the ring's volume, and every sum in the order of the ranks wherever it is",
     [](const Request& r) { return pairwise_all_reduce(r.group, r.chunks); }, always},
    {"pairwise-tree", "the same, and every sum by a tree over the ranks: neighbours, then pairs",
     [](const Request& r) { return pairwise_all_reduce(r.group, r.chunks, SumOrder::kTree); },
     always},
    {"recursive-doubling", "a butterfly on whole messages: log2 P rounds, n log2 P elements",
     [](const Request& r) { return recursive_doubling_all_reduce(r.group, whole(r)); }, always},
    {"halving-doubling", "recursive halving, then doubling: 2 log2 P rounds, least volume",
     [](const Request& r) { return one_lane(halving_doubling_all_reduce(r.group, r.chunks)); },
     needs_power_of_two},
    {"rabenseifner", "halving-doubling for any number of ranks",
     [](const Request& r) { return one_lane(rabenseifner_all_reduce(r.group, whole(r))); }, always},
    {"binomial", "reduce up a binomial tree, broadcast down",
     [](const Request& r) { return one_lane(binomial_all_reduce(r.group, whole(r))); }, always},
    {"double-tree", "two binary trees, each with half of the data in segments",
     [](const Request& r) { return double_tree_all_reduce(r.group, whole(r), segments_of(r, 2)); },
     always},
    {"two-level", "reduce-scatter in the node, all-reduce across nodes, all-gather in the node",
     [](const Request& r) {
       return one_lane(two_level_all_reduce(r.group, whole(r), r.tuning.ranks_per_node));
     },
     needs_whole_nodes},
    {"torus-2d", "reduce-scatter in the row, all-reduce in the column, all-gather in the row",
     [](const Request& r) { return one_lane(torus_all_reduce(r.group, whole(r), grid_of<2>(r))); },
     needs_grid<2>},
    {"torus-3d", "the same along three dimensions",
     [](const Request& r) { return one_lane(torus_all_reduce(r.group, whole(r), grid_of<3>(r))); },
     needs_grid<3>},
    {"mesh-2d", "a ring all-reduce of everything in the row, then in the column",
     [](const Request& r) {
       const std::vector<int> grid = grid_of<2>(r);
       return one_lane(mesh_all_reduce(r.group, whole(r), grid[0], grid[1]));
     },
     needs_grid<2>},
});

constexpr auto kGather = std::to_array<NamedAlgorithm>({
    {"binomial", "up a binomial tree: ceil(log2 P) rounds",
     [](const Request& r) { return binomial_gather(r.group, r.chunks, r.root); }, always},
});

constexpr auto kScatter = std::to_array<NamedAlgorithm>({
    {"binomial", "down a binomial tree: ceil(log2 P) rounds",
     [](const Request& r) { return binomial_scatter(r.group, r.chunks, r.root); }, always},
});

constexpr auto kAllGather = std::to_array<NamedAlgorithm>({
    {"ring", "chunks travel around a ring: P - 1 rounds",
     [](const Request& r) { return one_lane(ring_all_gather(r.group, r.chunks)); }, always},
    {"recursive-doubling", "windows of chunks double: log2 P rounds",
     [](const Request& r) { return one_lane(recursive_doubling_all_gather(r.group, r.chunks)); },
     needs_power_of_two},
});

constexpr auto kReduceScatter = std::to_array<NamedAlgorithm>({
    {"ring", "partial sums travel around a ring: P - 1 rounds",
     [](const Request& r) { return one_lane(ring_reduce_scatter(r.group, r.chunks)); }, always},
    {"pairwise",
     "each chunk's contributions straight to its owner, summed in the order of the ranks",
     [](const Request& r) { return pairwise_reduce_scatter(r.group, r.chunks); }, always},
    {"pairwise-tree", "the same, summed by a tree over the ranks: neighbours, then pairs",
     [](const Request& r) { return pairwise_reduce_scatter(r.group, r.chunks, SumOrder::kTree); },
     always},
    {"recursive-halving", "windows of chunks halve: log2 P rounds",
     [](const Request& r) { return one_lane(recursive_halving_reduce_scatter(r.group, r.chunks)); },
     needs_power_of_two},
});

constexpr auto kAllToAll = std::to_array<NamedAlgorithm>({
    {"pairwise", "one exchange per distance: P - 1 rounds, every element sent once",
     [](const Request& r) { return one_lane(pairwise_all_to_all(r.group, r.chunks, r.received)); },
     always},
    {"bruck", "chunks share messages over distances 1, 2, 4, ...: log2 P rounds, more volume",
     [](const Request& r) { return bruck_all_to_all(r.group, r.chunks, r.received); },
     [](const Request& r) { return why_not_bruck(r.chunks, r.received); }},
});

constexpr auto kBarrier = std::to_array<NamedAlgorithm>({
    {"dissemination", "empty messages over distances 1, 2, 4, ...: ceil(log2 P) rounds",
     [](const Request& r) { return one_lane(dissemination_barrier(r.group)); }, always},
});

constexpr OpKind kOps[] = {OpKind::kBroadcast,     OpKind::kReduce,   OpKind::kAllReduce,
                           OpKind::kGather,        OpKind::kScatter,  OpKind::kAllGather,
                           OpKind::kReduceScatter, OpKind::kAllToAll, OpKind::kBarrier};

template <class Items, class NameOf>
std::string list_names(const Items& items, const NameOf& name_of) {
  std::vector<std::string_view> names;
  for (const auto& item : items) names.push_back(name_of(item));
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

CollectiveRequest CollectiveRequest::of(OpKind op, const comm::Group& group, std::size_t count,
                                        const Tuning& tuning) {
  const int size = group.size();
  if (op == OpKind::kAllToAll && count % static_cast<std::size_t>(size) != 0) {
    throw ConfigError(fmt::format(
        "an all_to_all of equal parts: {} elements are not a multiple of {} ranks", count, size));
  }
  const comm::Chunks chunks = comm::Chunks::even({0, count}, size);
  return {.group = group, .chunks = chunks, .received = chunks, .tuning = tuning};
}

std::span<const OpKind> collective_ops() { return kOps; }

std::span<const NamedAlgorithm> algorithms(OpKind op) {
  switch (op) {
    case OpKind::kBroadcast:
      return kBroadcast;
    case OpKind::kReduce:
      return kReduce;
    case OpKind::kAllReduce:
      return kAllReduce;
    case OpKind::kGather:
      return kGather;
    case OpKind::kScatter:
      return kScatter;
    case OpKind::kAllGather:
      return kAllGather;
    case OpKind::kReduceScatter:
      return kReduceScatter;
    case OpKind::kAllToAll:
      return kAllToAll;
    case OpKind::kBarrier:
      return kBarrier;
    default:
      return {};
  }
}

const NamedAlgorithm& find_algorithm(OpKind op, std::string_view name) {
  const std::span<const NamedAlgorithm> known = algorithms(op);
  const auto found = std::find_if(known.begin(), known.end(),
                                  [name](const NamedAlgorithm& a) { return a.name == name; });
  if (found != known.end()) return *found;
  throw ConfigError(fmt::format("no algorithm for {} is called {}. Choose {}.", to_string(op),
                                in_quotes(name),
                                list_names(known, [](const NamedAlgorithm& a) { return a.name; })));
}

OpKind parse_collective(std::string_view name) {
  for (const OpKind op : kOps) {
    if (to_string(op) == name) return op;
  }
  throw ConfigError(fmt::format("no collective is called {}. Choose {}.", in_quotes(name),
                                list_names(kOps, [](OpKind op) { return to_string(op); })));
}

std::vector<int> balanced_grid(int size, int dimensions) {
  std::vector<int> grid;
  for (; dimensions > 1; --dimensions) {
    // The largest divisor whose power still leaves as much for each of the other dimensions.
    int best = 1;
    for (int extent = 2;; ++extent) {
      long long power = 1;
      for (int d = 0; d < dimensions; ++d) power *= extent;
      if (power > size) break;
      if (size % extent == 0) best = extent;
    }
    grid.push_back(best);
    size /= best;
  }
  grid.push_back(size);
  return grid;
}

}  // namespace ultra::collectives

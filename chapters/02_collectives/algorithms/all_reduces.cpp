#include "chapters/02_collectives/algorithms/all_reduces.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <optional>

#include "chapters/02_collectives/halving_doubling.hpp"
#include "chapters/02_collectives/ring_all_gather.hpp"
#include "chapters/02_collectives/ring_all_reduce.hpp"
#include "chapters/02_collectives/ring_reduce_scatter.hpp"
#include "chapters/02_collectives/steps.hpp"
#include "common/base/errors.hpp"

namespace ultra::collectives {
namespace {

/// One step of each ring in turn, then the next step of each: all rings have the same length.
comm::Lane take_turns(const std::vector<comm::Lane>& rings) {
  comm::Lane lane;
  for (std::size_t step = 0; step < rings.front().size(); ++step) {
    for (const comm::Lane& ring : rings) lane.push_back(ring[step]);
  }
  return lane;
}

void require_grid(const comm::Group& group, std::span<const int> extents) {
  const auto product =
      std::accumulate(extents.begin(), extents.end(), 1LL, std::multiplies<long long>());
  if (std::any_of(extents.begin(), extents.end(), [](int e) { return e < 1; }) ||
      product != group.size()) {
    throw ConfigError(fmt::format("a grid of {} has {} places, one for each of {} ranks is needed",
                                  fmt::join(extents, " x "), product, group.size()));
  }
}

/// Members `first`, `first + stride`, ...; `place` is this rank's among them.
comm::Group every(const comm::Group& group, int first, int stride, int count, int place) {
  comm::Group line{.ranks = {}, .rank = place};
  for (int i = 0; i < count; ++i) line.ranks.push_back(group.at(first + i * stride));
  return line;
}

comm::Group row_of(const comm::Group& group, int columns) {
  const int column = group.rank % columns;
  return every(group, group.rank - column, 1, columns, column);
}

/// The members with the same place in their row; of more than two dimensions, a grid again.
comm::Group column_of(const comm::Group& group, int columns) {
  return every(group, group.rank % columns, columns, group.size() / columns, group.rank / columns);
}

comm::Lane ring(const comm::Group& group, Range range) {
  return ring_all_reduce(group, comm::Chunks::even(range, group.size()));
}

comm::Lane reduce_along(const comm::Group& group, Range range, std::span<const int> extents) {
  if (extents.size() < 2) return ring(group, range);
  const comm::Group row = row_of(group, extents.back());
  const comm::Chunks chunks = comm::Chunks::even(range, row.size());
  comm::Lane lane = ring_reduce_scatter(row, chunks);
  comm::append(lane, reduce_along(column_of(group, row.size()), chunks[row.rank],
                                  extents.first(extents.size() - 1)));
  comm::append(lane, ring_all_gather(row, chunks));
  return lane;
}

/// The largest power of two of a group's members, and the steps that bring the others' data there and the
/// result back.
///
/// The first core_size positions are the core. Position core_size + i gives its data to position i,
/// which combines them with its own, and gets the result from it at the end.
/// Cost: 2 rounds, when the group's size is no power of two; n elements sent more by the members
/// outside the core, and by those that they fold into.
/// Source: Thakur, Rabenseifner, Gropp 2005, "Optimization of collective communication operations
/// in MPICH".
class Fold {
 public:
  Fold(const comm::Group& group, Range range)
      : group_(group),
        range_(range),
        core_size_(static_cast<int>(std::bit_floor(static_cast<unsigned>(group.size())))) {}

  /// Whether this rank takes part in what happens between in() and out().
  [[nodiscard]] bool in_core() const { return group_.rank < core_size_; }
  /// The members of the core, of which this rank is one.
  [[nodiscard]] comm::Group core() const {
    return {.ranks = {group_.ranks.begin(), group_.ranks.begin() + core_size_},
            .rank = group_.rank};
  }
  /// The steps before.
  [[nodiscard]] comm::Lane in() const {
    if (!in_core()) return {send_step(group_.at(group_.rank - core_size_), {range_})};
    if (!has_partner()) return {};
    return {receive_step(group_.at(group_.rank + core_size_), {range_}, comm::OnReceive::kReduce)};
  }
  /// The steps after.
  [[nodiscard]] comm::Lane out() const {
    if (!in_core()) return {receive_step(group_.at(group_.rank - core_size_), {range_})};
    if (!has_partner()) return {};
    return {send_step(group_.at(group_.rank + core_size_), {range_})};
  }

 private:
  [[nodiscard]] bool has_partner() const { return group_.rank + core_size_ < group_.size(); }

  const comm::Group& group_;
  Range range_;
  int core_size_;
};

comm::Lane butterfly(const comm::Group& group, Range range) {
  const comm::Block data{range};
  const comm::Block arrived{{0, range.size()}, comm::Buffer::kScratch};
  comm::Lane lane;
  for (int distance = 1; distance < group.size(); distance *= 2) {
    const int partner = group.at(group.rank ^ distance);
    lane.push_back(exchange_step(partner, data, partner, arrived));
    lane.push_back(local_step(own_rank(group), arrived, data, comm::OnReceive::kReduce));
  }
  return lane;
}

/// Root of the in-order tree over [first, last), an odd number of nodes: an odd number of nodes on
/// each side of it, so that both sides are such trees too.
int root_of(int first, int last) {
  const int nodes = last - first;
  return nodes == 1 ? first : first + ((nodes - 1) / 2 | 1);
}

/// The place of a node in the first tree.
TreePlace first_tree_place(int size, int node) {
  const int in_order = size % 2 == 0 ? size - 1 : size;  // nodes of the in-order tree
  if (node == in_order) return {.parent = comm::kNobody, .children = {root_of(0, in_order)}};
  TreePlace place;
  if (in_order < size) place.parent = in_order;
  int first = 0;
  int last = in_order;
  for (int root = root_of(first, last); root != node; root = root_of(first, last)) {
    place.parent = root;
    (node < root ? last : first) = node < root ? root : root + 1;
  }
  if (last - first > 1) place.children = {root_of(first, node), root_of(node + 1, last)};
  return place;
}

/// A lane in the making, in which a send waits for the receive behind it to share a step.
class PairedSteps {
 public:
  void send(int to, Range range) {
    flush();
    waiting_ = send_step(to, {range});
  }

  void receive(int from, Range range, comm::OnReceive on_receive) {
    comm::Round step = receive_step(from, {range}, on_receive);
    if (waiting_) {
      step.send_to = waiting_->send_to;
      step.send = waiting_->send;
      waiting_.reset();
    }
    lane_.push_back(step);
  }

  void flush() {
    if (waiting_) lane_.push_back(*waiting_);
    waiting_.reset();
  }

  [[nodiscard]] const comm::Lane& lane() const { return lane_; }

 private:
  comm::Lane lane_;
  std::optional<comm::Round> waiting_;
};

comm::Lane reduce_and_broadcast(const comm::Group& group, const TreePlace& place,
                                const comm::Chunks& segments) {
  const bool is_root = place.parent == comm::kNobody;
  PairedSteps steps;
  for (int j = 0; j < segments.size(); ++j) {
    for (const int child : place.children) {
      steps.receive(group.at(child), segments[j], comm::OnReceive::kReduce);
    }
    if (!is_root) steps.send(group.at(place.parent), segments[j]);
  }
  // The last segment must have left before the first result arrives: they may be the same.
  steps.flush();
  for (int j = 0; j < segments.size(); ++j) {
    if (!is_root) steps.receive(group.at(place.parent), segments[j], comm::OnReceive::kStore);
    for (const int child : place.children) steps.send(group.at(child), segments[j]);
  }
  steps.flush();
  return steps.lane();
}

}  // namespace

comm::Schedule segmented_ring_all_reduce(const comm::Group& group, Range range, int segments) {
  if (segments < 1) {
    throw ConfigError(
        fmt::format("a ring's chunks are cut into {} segments; it takes at least 1", segments));
  }
  // A segment of every chunk together is again a range with one chunk per member: a ring of its own.
  const comm::Chunks parts = comm::Chunks::even(range, segments);
  const int num_lanes = std::min(segments, 2);
  comm::Schedule schedule;
  for (int l = 0; l < num_lanes; ++l) {
    std::vector<comm::Lane> rings;
    for (int j = l; j < segments; j += num_lanes) {
      rings.push_back(ring_all_reduce(group, comm::Chunks::even(parts[j], group.size())));
    }
    schedule.lanes.push_back(take_turns(rings));
  }
  return schedule;
}

comm::Lane torus_all_reduce(const comm::Group& group, Range range, std::span<const int> extents) {
  require_grid(group, extents);
  return reduce_along(group, range, extents);
}

comm::Lane mesh_all_reduce(const comm::Group& group, Range range, int rows, int columns) {
  require_grid(group, std::vector<int>{rows, columns});
  comm::Lane lane = ring(row_of(group, columns), range);
  comm::append(lane, ring(column_of(group, columns), range));
  return lane;
}

comm::Schedule recursive_doubling_all_reduce(const comm::Group& group, Range range) {
  const Fold fold(group, range);
  comm::Lane lane = fold.in();
  if (fold.in_core()) comm::append(lane, butterfly(fold.core(), range));
  comm::append(lane, fold.out());
  return {.lanes = {lane}, .scratch_count = fold.in_core() ? range.size() : 0};
}

comm::Lane rabenseifner_all_reduce(const comm::Group& group, Range range) {
  const Fold fold(group, range);
  comm::Lane lane = fold.in();
  if (fold.in_core()) {
    const comm::Group core = fold.core();
    comm::append(lane, halving_doubling_all_reduce(core, comm::Chunks::even(range, core.size())));
  }
  comm::append(lane, fold.out());
  return lane;
}

comm::Lane dissemination_barrier(const comm::Group& group) {
  comm::Lane lane;
  for (int distance = 1; distance < group.size(); distance *= 2) {
    lane.push_back(
        exchange_step(group.at(group.rank + distance), {}, group.at(group.rank - distance), {}));
  }
  return lane;
}

TreePlace tree_place(int size, int position, Tree tree) {
  if (tree == Tree::kFirst) return first_tree_place(size, position);
  const auto node_at = [size](int p) { return size % 2 == 0 ? size - 1 - p : (p + 1) % size; };
  const auto position_of = [size](int node) {
    return size % 2 == 0 ? size - 1 - node : (node + size - 1) % size;
  };
  TreePlace place = first_tree_place(size, node_at(position));
  if (place.parent != comm::kNobody) place.parent = position_of(place.parent);
  for (int& child : place.children) child = position_of(child);
  return place;
}

comm::Schedule double_tree_all_reduce(const comm::Group& group, Range range, int segments) {
  if (segments < 1) {
    throw ConfigError(
        fmt::format("each tree's half is cut into {} segments; it takes at least 1", segments));
  }
  const comm::Chunks halves = comm::Chunks::even(range, 2);
  const auto lane = [&](Tree tree, Range half) {
    return reduce_and_broadcast(group, tree_place(group.size(), group.rank, tree),
                                comm::Chunks::even(half, segments));
  };
  return {.lanes = {lane(Tree::kFirst, halves[0]), lane(Tree::kSecond, halves[1])}};
}

}  // namespace ultra::collectives

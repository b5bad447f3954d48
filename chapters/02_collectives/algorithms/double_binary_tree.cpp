#include "chapters/02_collectives/algorithms/double_binary_tree.hpp"

#include <fmt/format.h>

#include <optional>

#include "chapters/02_collectives/steps.hpp"
#include "common/base/errors.hpp"

namespace ultra::collectives {
namespace {

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

#include "chapters/02_collectives/algorithms/rooted.hpp"

#include <algorithm>
#include <vector>

#include "chapters/02_collectives/binomial_broadcast.hpp"
#include "chapters/02_collectives/ring_all_gather.hpp"
#include "chapters/02_collectives/ring_reduce_scatter.hpp"
#include "chapters/02_collectives/steps.hpp"

namespace ultra::collectives {
namespace {

using comm::Block;
using comm::Buffer;
using comm::Chunks;
using comm::Group;
using comm::Lane;

/// Positions counted from the root, and where the chunks of a subtree are kept.
class SubtreeView {
 public:
  SubtreeView(const Group& group, const Chunks& chunks, int root)
      : group_(group), chunks_(chunks), root_(root), size_(group.size()) {
    v_ = (group.rank - root + size_) % size_;
    while (bit_ < size_ && (v_ & bit_) == 0) bit_ *= 2;
  }

  [[nodiscard]] bool is_root() const { return v_ == 0; }
  [[nodiscard]] bool is_leaf() const { return v_ != 0 && width(v_, bit_) == 1; }
  [[nodiscard]] int parent() const { return group_.at(root_ + v_ - bit_); }
  [[nodiscard]] int child(int bit) const { return group_.at(root_ + v_ + bit); }
  /// This rank's chunk, in place.
  [[nodiscard]] Block own() const { return {chunks_[group_.rank]}; }

  /// The bits of the children: v + bit is one. Smallest first.
  [[nodiscard]] std::vector<int> children() const {
    std::vector<int> bits;
    for (int bit = 1; bit < bit_ && v_ + bit < size_; bit *= 2) bits.push_back(bit);
    return bits;
  }

  /// Elements of this rank's subtree.
  [[nodiscard]] std::size_t scratch_count() const {
    return is_root() || is_leaf() ? 0 : count(v_, width(v_, bit_));
  }

  /// The messages that carry the subtree of child v + bit, as blocks of this rank.
  [[nodiscard]] std::vector<Block> blocks_of_child(int bit) const {
    const int first = v_ + bit;
    if (is_root()) return in_data(first, width(first, bit));
    const std::size_t begin = count(v_, bit);
    return {{{begin, begin + count(first, width(first, bit))}, Buffer::kScratch}};
  }

  /// The messages that carry this rank's subtree, as blocks of this rank: cut as the parent cuts them.
  [[nodiscard]] std::vector<Block> blocks_of_own() const {
    if (is_leaf()) return {own()};
    const int positions = width(v_, bit_);
    const std::size_t all = count(v_, positions);
    const bool parent_is_root = v_ == bit_;
    if (!parent_is_root || in_data(v_, positions).size() == 1) {
      return {{{0, all}, Buffer::kScratch}};
    }
    const std::size_t before_the_end = in_data(v_, positions).front().range.size();
    return {{{0, before_the_end}, Buffer::kScratch}, {{before_the_end, all}, Buffer::kScratch}};
  }

 private:
  /// Positions of the subtree of v, whose lowest set bit is `bit`.
  [[nodiscard]] int width(int v, int bit) const { return std::min(bit, size_ - v); }

  /// Elements of the chunks of positions [first, first + positions), counted from the root.
  [[nodiscard]] std::size_t count(int first, int positions) const {
    std::size_t elements = 0;
    for (int i = 0; i < positions; ++i) elements += chunks_[root_ + first + i].size();
    return elements;
  }

  /// The same chunks in the data: two blocks when they reach around the end of the group.
  [[nodiscard]] std::vector<Block> in_data(int first, int positions) const {
    const int begin = (root_ + first) % size_;
    const int end = begin + positions;
    if (end <= size_) return {{chunks_.span(begin, end)}};
    return {{chunks_.span(begin, size_)}, {chunks_.span(0, end - size_)}};
  }

  const Group& group_;
  const Chunks& chunks_;
  int root_;
  int size_;
  int v_;
  int bit_ = 1;  // v's lowest set bit; a power of two >= size for the root
};

}  // namespace

comm::Schedule binomial_gather(const Group& group, const Chunks& chunks, int root) {
  const SubtreeView tree(group, chunks, root);
  Lane lane;
  if (tree.scratch_count() > 0) {
    lane.push_back(
        local_step(own_rank(group), tree.own(), {{0, tree.own().range.size()}, Buffer::kScratch}));
  }
  for (const int bit : tree.children()) {
    for (const Block& block : tree.blocks_of_child(bit)) {
      lane.push_back(receive_step(tree.child(bit), block));
    }
  }
  if (!tree.is_root()) {
    for (const Block& block : tree.blocks_of_own()) lane.push_back(send_step(tree.parent(), block));
  }
  return {.lanes = {lane}, .scratch_count = tree.scratch_count()};
}

comm::Schedule binomial_scatter(const Group& group, const Chunks& chunks, int root) {
  const SubtreeView tree(group, chunks, root);
  Lane lane;
  if (!tree.is_root()) {
    for (const Block& block : tree.blocks_of_own()) {
      lane.push_back(receive_step(tree.parent(), block));
    }
  }
  const std::vector<int> bits = tree.children();
  for (auto bit = bits.rbegin(); bit != bits.rend(); ++bit) {
    for (const Block& block : tree.blocks_of_child(*bit)) {
      lane.push_back(send_step(tree.child(*bit), block));
    }
  }
  if (tree.scratch_count() > 0) {
    lane.push_back(
        local_step(own_rank(group), {{0, tree.own().range.size()}, Buffer::kScratch}, tree.own()));
  }
  return {.lanes = {lane}, .scratch_count = tree.scratch_count()};
}

comm::Lane binomial_reduce(const comm::Group& group, Range range, int root) {
  const int size = group.size();
  const int v = (group.rank - root + size) % size;  // counted from the root
  comm::Lane lane;
  // The smallest subtrees first: they are complete first.
  for (int bit = 1; bit < size; bit *= 2) {
    if ((v & bit) != 0) {
      lane.push_back(send_step(group.at(root + v - bit), {range}));
      break;
    }
    if (v + bit < size) {
      lane.push_back(receive_step(group.at(root + v + bit), {range}, comm::OnReceive::kReduce));
    }
  }
  return lane;
}

comm::Lane binomial_all_reduce(const comm::Group& group, Range range) {
  comm::Lane lane = binomial_reduce(group, range, 0);
  comm::append(lane, binomial_broadcast(group, range, 0));
  return lane;
}

comm::Lane linear_broadcast(const comm::Group& group, Range range, int root) {
  if (group.rank != root) return {receive_step(group.at(root), {range})};
  comm::Lane lane;
  for (int i = 1; i < group.size(); ++i) lane.push_back(send_step(group.at(root + i), {range}));
  return lane;
}

comm::Schedule scatter_all_gather_broadcast(const comm::Group& group, const comm::Chunks& chunks,
                                            int root) {
  comm::Schedule schedule = binomial_scatter(group, chunks, root);
  comm::append(schedule.lanes.front(), ring_all_gather(group, chunks));
  return schedule;
}

comm::Schedule reduce_scatter_gather_reduce(const comm::Group& group, const comm::Chunks& chunks,
                                            int root) {
  comm::Schedule schedule = binomial_gather(group, chunks, root);
  comm::Lane lane = ring_reduce_scatter(group, chunks);
  comm::append(lane, schedule.lanes.front());
  schedule.lanes.front() = lane;
  return schedule;
}

}  // namespace ultra::collectives

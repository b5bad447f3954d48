#pragma once
/// @file
/// SumTree: one order for a sum over a long axis, whoever has which part of it.
///
/// A sum of floats depends on its order. Here the order follows from the axis alone: leaves of equal
/// length, summed from their first element to their last, are joined by a binary tree over their
/// places: neighbours, then neighbouring pairs, and so on; what has no neighbour goes up as it is. A
/// rank, or a micro-batch, that has a whole node computes it alone. What is left to do is the tree's
/// upper part: NodeCounter over micro-batches, collectives::SumOrder::kTree over ranks. So every such
/// split gives the same bits.

#include <bit>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/errors.hpp"

namespace ultra::ops {

/// @brief Adds up nodes of equal size in the order of their places, as a binary counter counts.
///
/// It keeps one node per 1 among the bits of their number, floor(log2 n) + 1 at most, and joins
/// n - 1 times for n nodes. Requires: Node can be moved; join(Node left, Node right) returns a Node.
template <class Node, class Join>
class NodeCounter {
 public:
  /// @brief A counter without nodes. @param join  of two neighbours.
  explicit NodeCounter(Join join) : join_(std::move(join)) {}

  /// @brief The next node, after those before.
  void add(Node node) {
    for (std::size_t bits = count_++; (bits & 1) != 0; bits >>= 1) {
      node = join_(take_last(), std::move(node));
    }
    kept_.push_back(std::move(node));
  }

  /// @brief How many nodes have been added.
  [[nodiscard]] std::size_t count() const { return count_; }
  /// @brief How many it holds: joined ones, and those that wait for a neighbour.
  [[nodiscard]] std::size_t kept() const { return kept_.size(); }

  /// @brief The node of all that were added; the counter is empty again.
  /// @throws InternalError when none was.
  [[nodiscard]] Node take() {
    ensure(!kept_.empty(), "a tree has at least one node");
    Node node = take_last();
    while (!kept_.empty()) node = join_(take_last(), std::move(node));
    count_ = 0;
    return node;
  }

 private:
  Node take_last() {
    Node node = std::move(kept_.back());
    kept_.pop_back();
    return node;
  }

  Join join_;
  std::vector<Node> kept_;
  std::size_t count_ = 0;
};

/// @brief Where the sum over an axis is cut, for any part of that axis that is a node.
class SumTree {
 public:
  static constexpr std::size_t kLongestLeaf = 16;  ///< unless the axis has no half

  /// @brief The tree of an axis: it is halved while it is even and longer than kLongestLeaf; what is
  /// left is a leaf. Of tokens, the axis is one sequence, of which a batch has any number.
  /// @throws ShapeError for an axis of no elements.
  [[nodiscard]] static SumTree of_axis(std::size_t length);

  /// @brief Elements of a leaf.
  [[nodiscard]] std::size_t leaf() const { return leaf_; }
  /// @brief Leaves of a part; a part that is not a multiple of the leaf ends with a shorter one.
  [[nodiscard]] std::size_t leaves(std::size_t part) const { return (part + leaf_ - 1) / leaf_; }
  /// @brief Rounds of joins until one node is left: ceil(log2 leaves).
  [[nodiscard]] std::size_t depth(std::size_t part) const;

  /// @brief Whether each of several equal parts of a length is a node: a power of two of leaves.
  /// @return empty, or one sentence that says what is wrong and what would do.
  [[nodiscard]] std::string why_not(std::size_t length, std::size_t parts) const;

  /// @brief The sum of a part that begins where a node begins; 0 for an empty one. -0 is never a
  /// sum: each leaf begins with +0.
  /// @return float or double, as the numbers.
  template <class T>
  [[nodiscard]] T sum(std::span<const T> part) const {
    if (part.empty()) return T(0);
    const auto join = [](T left, T right) { return left + right; };
    NodeCounter<T, decltype(join)> nodes(join);
    while (!part.empty()) {
      const std::size_t count = part.size() < leaf_ ? part.size() : leaf_;
      T leaf = 0;
      for (const T x : part.first(count)) leaf += x;
      nodes.add(leaf);
      part = part.subspan(count);
    }
    return nodes.take();
  }

 private:
  explicit SumTree(std::size_t leaf) : leaf_(leaf) {}

  std::size_t leaf_;
};

}  // namespace ultra::ops

#pragma once
/// @file
/// All-reduce on two binary trees at once: the depth of a tree and the volume of a ring.

#include <vector>

#include "common/comm/collectives/schedule.hpp"

namespace ultra::collectives {

/// @brief One position's neighbours in a tree, as positions of the group.
struct TreePlace {
  int parent = comm::kNobody;  ///< kNobody for the root
  std::vector<int> children;   ///< empty for a leaf
  /// @brief Equal when the neighbours are the same, in the same order.
  bool operator==(const TreePlace&) const = default;
};

/// @brief Which of the two trees.
enum class Tree { kFirst, kSecond };

/// @brief A position's place in one of two binary trees over `size` positions, such that no position
/// has children in both.
///
/// The first tree numbers its nodes from left to right, in order: leaves are the even positions,
/// inner nodes the odd ones; for an even size the last position is a root above it. The second is
/// the first read backwards (even size) or moved on by one position (odd size): its inner nodes are
/// even positions.
/// Source: Sanders, Speck, Traff 2009, "Two-tree algorithms for full bandwidth broadcast, reduction
/// and scan": one tree, and its mirror image or shift.
[[nodiscard]] TreePlace tree_place(int size, int position, Tree tree);

/// @brief All-reduce: each tree reduces one half of the data to its root and broadcasts it from
/// there, in segments that follow each other through the tree; each tree on a lane of its own.
///
/// A binary tree alone leaves half of the ranks (its leaves) with a link that rests: an inner node
/// sends every element three times, a leaf once. With two trees every rank does both.
/// @param segments  per half; more of them fill the pipeline better and cost more messages.
/// @throws ConfigError when segments < 1.
/// Cost: about 2 (2 segments + 2 log2 P) rounds; at most 2 n elements sent per rank: n/2 per
/// neighbour in each tree.
/// Source: Sanders, Speck, Traff 2009.
[[nodiscard]] comm::Schedule double_tree_all_reduce(const comm::Group& group, Range range,
                                                    int segments);

}  // namespace ultra::collectives

#pragma once
/// @file
/// TensorTree: arrays added up by a binary tree over their places, in whatever order they come.

#include <cstddef>
#include <map>
#include <utility>

#include "common/ops/elementwise.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::train {

/// @brief The upper levels of an ops::SumTree: neighbours are joined, then neighbouring pairs, and so on;
/// what has no neighbour goes up as it is. ops::NodeCounter does the same for nodes that come in order.
class TensorTree {
 public:
  /// @param leaves  how many arrays there will be; at least 1.
  explicit TensorTree(std::size_t leaves) : leaves_(leaves) {}

  /// @brief Joins an array with what it completes.
  /// @param leaf  its place, below `leaves`.
  /// @param node  overwritten with the sum of the largest node that it completes, and kept until that
  ///              one's neighbour comes.
  /// @return whether it is now the sum of all; the tree is empty again then.
  bool add(std::size_t leaf, const Tensor& node) {
    std::size_t level = 0;
    for (std::size_t nodes = leaves_; nodes > 1; nodes = (nodes + 1) / 2) {
      if ((leaf ^ 1) < nodes) {
        const auto neighbour = waiting_.find({level, leaf ^ 1});
        if (neighbour == waiting_.end()) {
          waiting_.emplace(std::pair(level, leaf), node);
          return false;
        }
        ops::add_into(node, neighbour->second);
        waiting_.erase(neighbour);
      }
      ++level;
      leaf /= 2;
    }
    return true;
  }

  /// @brief Forgets what waits.
  void clear() { waiting_.clear(); }

 private:
  std::size_t leaves_;
  std::map<std::pair<std::size_t, std::size_t>, Tensor> waiting_;  // by level and place
};

}  // namespace ultra::train

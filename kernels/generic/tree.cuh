#pragma once
/// @file
/// Sums in one order whoever has which part of them: leaves of equal length, joined by a binary tree over
/// their places, as ops::SumTree has it.

#include <cstddef>

#include "kernels/generic/elements/sums.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::generic {
namespace {

/// @brief Levels of the largest tree.
constexpr int kMostLevels = 32;

/// @brief Adds up a thread's nodes in the order of their places, as a binary counter counts: it keeps one
/// for each 1 among the bits of their number.
template <typename T>
class Nodes {
 public:
  /// @brief The next node.
  __device__ __forceinline__ void add(T node) {
    for (unsigned bits = count_++; (bits & 1U) != 0; bits >>= 1U) {
      node = kept_[--top_] + node;
    }
    kept_[top_++] = node;
  }
  /// @brief The sum of all; 0 of none.
  __device__ __forceinline__ T take() {
    T node = top_ == 0 ? T(0) : kept_[--top_];
    while (top_ > 0) {
      node = kept_[--top_] + node;
    }
    return node;
  }

 private:
  T kept_[kMostLevels];
  unsigned count_ = 0;
  int top_ = 0;
};

/// @brief The sum over the lanes of a warp, in every lane: neighbours, then neighbouring pairs, and so on.
/// All 32 lanes call it; 0 stands for a leaf that is not there.
template <typename T>
__device__ __forceinline__ T warp_tree_sum(T leaf) {
  for (int distance = 1; distance < 32; distance *= 2) {
    leaf += __shfl_xor_sync(simt::kAllLanes, leaf, distance);
  }
  return leaf;
}

}  // namespace
}  // namespace ultra::kernels::generic

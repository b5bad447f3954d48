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
constexpr int kMostLevels = 24;

/// @brief Adds up a thread's nodes in the order of their places, as a binary counter counts: it keeps one
/// for each 1 among the bits of their number. All places are known when it is compiled, for the sake of
/// registers.
/// @tparam levels  kMostLevels, or 1 for a sum of one leaf.
template <typename T, int levels>
class Nodes {
 public:
  /// @brief The next node.
  __device__ __forceinline__ void add(T node) {
    bool is_kept = false;
#pragma unroll
    for (int level = 0; level < levels; ++level) {
      if (!is_kept && (count_ >> level & 1U) != 0) {
        node = kept_[level] + node;
      } else if (!is_kept) {
        kept_[level] = node;
        is_kept = true;
      }
    }
    ++count_;
  }
  /// @brief The sum of all; 0 of none.
  __device__ __forceinline__ T take() const {
    T node = 0;
    bool is_first = true;
#pragma unroll
    for (int level = 0; level < levels; ++level) {
      if ((count_ >> level & 1U) != 0) {
        node = is_first ? kept_[level] : kept_[level] + node;
        is_first = false;
      }
    }
    return node;
  }

 private:
  T kept_[levels] = {};
  unsigned count_ = 0;
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

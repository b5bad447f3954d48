#pragma once
/// @file
/// Positions as kernels read them.

#include "kernels/plain/positions.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::plain {
namespace {

/// @brief The position of a row.
__device__ __forceinline__ int position_of(const Positions& positions, int row) {
  if (positions.list != nullptr) {
    return simt::ldg(&positions.list[row]);
  }
  int run = 0;
  while (row >= positions.ends[run]) {
    ++run;
  }
  return row + positions.offsets[run];
}

/// @brief How many of the first `count` rows are at positions below `limit`.
__device__ __forceinline__ int rows_below(const Positions& positions, int count, int limit) {
  int first = 0;
  while (count > 0) {
    const int half = count / 2;
    if (position_of(positions, first + half) < limit) {
      first += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return first;
}

}  // namespace
}  // namespace ultra::kernels::plain

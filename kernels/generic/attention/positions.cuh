#pragma once
/// @file
/// Positions as kernels read them.

#include "kernels/generic/attention/positions.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::generic {
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

/// @brief How many of the first `count` of ascending numbers are below `limit`, where number(i) is the
/// i-th.
template <typename Number>
__device__ __forceinline__ int count_below(int count, int limit, const Number& number) {
  int first = 0;
  while (count > 0) {
    const int half = count / 2;
    if (number(first + half) < limit) {
      first += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return first;
}

/// @brief How many of the first `count` rows are at positions below `limit`.
__device__ __forceinline__ int rows_below(const Positions& positions, int count, int limit) {
  return count_below(count, limit, [&](int row) { return position_of(positions, row); });
}

}  // namespace
}  // namespace ultra::kernels::generic

#pragma once
/// @file
/// Sums over all threads of a block: by shuffles within each warp, then through shared memory.

#include "kernels/simt/simt.cuh"

namespace ultra::simt {

/// @brief Warps of the largest block: the size of the array that block_sum() needs.
constexpr int kMostWarps = 32;

/// @brief The sum over the threads of a block, in every thread, in an order that does not change.
///
/// All threads call it; blockDim.x is a multiple of 32 and the block's only extent.
/// @param warp_sums  [kMostWarps] of shared memory that no thread may still be reading: a loop
/// takes two arrays in turn, since the barrier of one call ends the reads of the call before.
template <typename T>
__device__ __forceinline__ T block_sum(T value, T* warp_sums) {
  const unsigned lane = threadIdx.x % 32;
  value = warp_sum(value);
  if (lane == 0) {
    sts(&warp_sums[threadIdx.x / 32], value);
  }
  __syncthreads();  // else a warp reads sums that others have not written
  const T of_warp = lane < blockDim.x / 32 ? lds(&warp_sums[lane]) : T{};
  return warp_sum(of_warp);
}

}  // namespace ultra::simt

// Rung 4 of reduction: the lanes of a warp add up by shuffles.
//
// Idea:   __shfl_xor_sync() hands a lane the register of the lane whose number differs in one bit.
//         After the distances 16, 8, 4, 2, 1 every lane has the warp's sum. Shared memory takes one
//         number per warp, and the first warp adds these up in the same way.
// Gain:   barriers of a block 8 -> 1. Requests to shared memory of a block: the tree's 8 stores and
//         its 12 rounds of a warp (4 + 2 + 1 + 1 + 1 + 1 + 1 + 1) with two loads and a store each,
//         and the last load, are 45; here 8 stores of one lane and 1 load.
// Limit:  one load of 4 bytes per thread: a warp has 128 bytes under way, then adds up and ends.

#include "kernels/ladders/basics/reduction/global_sum.cuh"
#include "kernels/ladders/basics/reduction/reduction.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::reduction {
namespace {

using namespace simt;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

// The sum over a warp's lanes, in every lane.
__device__ __forceinline__ float sum_of_lanes(float sum) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(kAllLanes, sum, distance);
  }
  return sum;
}

__global__ void warp_shuffles_kernel(const float* __restrict__ values, double* total, int n) {
  __shared__ float sums[kWarps];
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int i = blockIdx.x * kThreads + threadIdx.x;
  // A thread behind the end has 0 to add: it must stay, because its warp's shuffles wait for it.
  const float value = i < n ? ldg(&values[i]) : 0.0F;
  const float sum = sum_of_lanes(value * value);
  if (lane == 0) {
    sts(&sums[warp], sum);
  }
  // Without this the first warp would read sums that other warps have yet to write.
  __syncthreads();
  if (branch(warp == 0)) {
    const float warp_sum_of_lane = lane < kWarps ? lds(&sums[lane]) : 0.0F;
    const float block_sum = sum_of_lanes(warp_sum_of_lane);
    if (lane == 0) {
      atomicAdd(total, static_cast<double>(block_sum));
    }
  }
}

}  // namespace

template <>
void warp_shuffles<kExecutor>(const Problem& problem, const Queue& queue) {
  clear_total(problem, queue);
  launch(warp_shuffles_kernel,
         {.name = "warp_shuffles",
          .grid = {.x = ceil_div(problem.n, kThreads)},
          .block = {.x = kThreads},
          .queue = queue},
         problem.values, problem.total, problem.n);
  root_of_total(problem, queue);
}

}  // namespace ultra::kernels::reduction

// Rung 2: a block adds up 256 squares in shared memory, and does one atomic.
//
// Idea:   a tree. In round r, every 2^(r+1)-th thread adds the number 2^r places behind its own:
//         eight rounds for 256 numbers instead of 255 additions in a row.
// Gain:   atomics n -> n / 256.
// Limit:  the working threads of a round lie 2^(r+1) apart: all eight warps stay busy for five
//         rounds in which half, then a quarter, ... of their lanes work. 47 branches of a block
//         diverge.

#include "kernels/ladders/basics/reduction/global_sum.cuh"
#include "kernels/ladders/basics/reduction/reduction.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::reduction {
namespace {

using namespace simt;

constexpr int kThreads = 256;

__global__ void scattered_tree_kernel(const float* __restrict__ values, double* total, int n) {
  __shared__ float sums[kThreads];
  const int thread = threadIdx.x;
  const int i = blockIdx.x * kThreads + thread;
  const float value = i < n ? ldg(&values[i]) : 0.0F;
  sts(&sums[thread], value * value);
  for (int distance = 1; distance < kThreads; distance *= 2) {
    // Without this a thread would add a number that its neighbour has yet to complete.
    __syncthreads();
    if (branch(thread % (2 * distance) == 0)) {
      const float own = lds(&sums[thread]);
      const float other = lds(&sums[thread + distance]);
      sts(&sums[thread], own + other);
    }
  }
  if (thread == 0) {
    atomicAdd(total, static_cast<double>(lds(&sums[0])));
  }
}

}  // namespace

template <>
void scattered_tree<kExecutor>(const Problem& problem, const Queue& queue) {
  clear_total(problem, queue);
  launch(scattered_tree_kernel,
         {.name = "scattered_tree",
          .grid = {.x = ceil_div(problem.n, kThreads)},
          .block = {.x = kThreads},
          .queue = queue},
         problem.values, problem.total, problem.n);
  root_of_total(problem, queue);
}

}  // namespace ultra::kernels::reduction

// Rung 3: the same tree, the other way round.
//
// Idea:   in each round the first half of the threads that are left adds the numbers of the second
//         half. Working threads are threads 0 .. distance - 1, side by side: whole warps work or
//         rest, and their words lie in different banks.
// Gain:   divergent branches of a block 47 -> 5: those of the last five rounds, in its first warp.
// Limit:  eight barriers and eight rounds through shared memory for one addition per thread.

#include "kernels/ladders/basics/reduction/global_sum.cuh"
#include "kernels/ladders/basics/reduction/reduction.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::reduction {
namespace {

using namespace simt;

constexpr int kThreads = 256;

__global__ void dense_tree_kernel(const float* __restrict__ values, double* total, int n) {
  __shared__ float sums[kThreads];
  const int thread = threadIdx.x;
  const int i = blockIdx.x * kThreads + thread;
  const float value = i < n ? ldg(&values[i]) : 0.0F;
  sts(&sums[thread], value * value);
  for (int distance = kThreads / 2; distance > 0; distance /= 2) {
    // Without this a thread would add a number that its partner has yet to complete.
    __syncthreads();
    if (branch(thread < distance)) {
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
void dense_tree<kExecutor>(const Problem& problem, const Queue& queue) {
  clear_total(problem, queue);
  launch(dense_tree_kernel,
         {.name = "dense_tree",
          .grid = {.x = ceil_div(problem.n, kThreads)},
          .block = {.x = kThreads},
          .queue = queue},
         problem.values, problem.total, problem.n);
  root_of_total(problem, queue);
}

}  // namespace ultra::kernels::reduction

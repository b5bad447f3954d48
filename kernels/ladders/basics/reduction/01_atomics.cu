// Rung 1: one number, and every thread adds to it.
//
// Idea:   atomicAdd() makes "read, add, write" one operation, so that no thread's share is lost.
// Cost:   n atomics on one address. They are done one after the other, where the address lives: in
//         one slice of the second-level cache. The order differs from run to run.
// Limit:  that queue; the loads, which are coalesced, hardly matter.

#include "kernels/ladders/basics/reduction/global_sum.cuh"
#include "kernels/ladders/basics/reduction/reduction.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::reduction {
namespace {

using namespace simt;

constexpr int kThreads = 256;

__global__ void atomics_kernel(const float* __restrict__ values, double* total, int n) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (branch(i >= n)) {
    return;
  }
  const float value = ldg(&values[i]);
  atomicAdd(total, static_cast<double>(value * value));
}

}  // namespace

template <>
void atomics<kExecutor>(const Problem& problem, const Queue& queue) {
  clear_total(problem, queue);
  launch(atomics_kernel,
         {.name = "atomics",
          .grid = {.x = ceil_div(problem.n, kThreads)},
          .block = {.x = kThreads},
          .queue = queue},
         problem.values, problem.total, problem.n);
  root_of_total(problem, queue);
}

}  // namespace ultra::kernels::reduction

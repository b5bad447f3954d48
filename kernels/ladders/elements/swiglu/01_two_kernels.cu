// Rung 1: one kernel per operation, as a library of operations runs it.
//
// Idea:   silu(gate) is written, then read again and multiplied.
// Cost:   20 bytes moved per element, where 12 are asked for.
// Limit:  memory: two fifths of the time for a number that lives for one multiplication.

#include "kernels/ladders/elements/swiglu/silu.cuh"
#include "kernels/ladders/elements/swiglu/swiglu.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::swiglu {
namespace {

using namespace simt;

constexpr int kThreads = 256;

// [region two_kernels]
__global__ void silu_kernel(const float* __restrict__ gate, float* __restrict__ activated,
                            int count) {
  const int index = blockIdx.x * kThreads + threadIdx.x;
  if (branch(index < count)) {
    const float x = ldg(&gate[index]);
    stg(&activated[index], silu(x));
  }
}

__global__ void multiply_kernel(const float* __restrict__ activated, const float* __restrict__ up,
                                float* __restrict__ product, int count) {
  const int index = blockIdx.x * kThreads + threadIdx.x;
  if (branch(index < count)) {
    const float left = ldg(&activated[index]);
    const float right = ldg(&up[index]);
    stg(&product[index], left * right);
  }
}
// [/region]

}  // namespace

template <>
void two_kernels<kExecutor>(const Problem& problem, const Queue& queue) {
  const int count = problem.tokens * problem.ffn;
  const Extents grid{.x = ceil_div(count, kThreads)};
  launch(silu_kernel, {.name = "silu", .grid = grid, .block = {.x = kThreads}, .queue = queue},
         problem.gate, problem.activated, count);
  launch(multiply_kernel,
         {.name = "multiply", .grid = grid, .block = {.x = kThreads}, .queue = queue},
         problem.activated, problem.up, problem.product, count);
}

}  // namespace ultra::kernels::swiglu

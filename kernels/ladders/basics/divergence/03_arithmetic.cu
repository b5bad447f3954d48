// Rung 3: arithmetic instead of a branch.
//
// Idea:   both sides are own x cos + partner x sin, with the sine's sign changed in even elements.
//         Element i's partner is i ^ 1. Choosing between two values that are there takes one
//         instruction for all lanes; only choosing between two pieces of work diverges.
// Gain:   32 active lanes, and neighbours again: half of rung 2's sectors.
// Limit:  every element of in is loaded twice, by its own thread and by its partner's.

#include "kernels/ladders/basics/divergence/divergence.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::divergence {
namespace {

using namespace simt;

constexpr int kThreads = 256;

__global__ void arithmetic_kernel(const float* __restrict__ in, const float* __restrict__ cosines,
                                  const float* __restrict__ sines, float* __restrict__ out,
                                  int elements) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (branch(i >= elements)) {
    return;
  }
  const float own = ldg(&in[i]);
  const float partner = ldg(&in[i ^ 1]);
  const float cosine = ldg(&cosines[i / 2]);
  const float sine = ldg(&sines[i / 2]);
  const float signed_sine = i % 2 == 0 ? -sine : sine;
  stg(&out[i], own * cosine + partner * signed_sine);
}

}  // namespace

template <>
void arithmetic<kExecutor>(const Problem& problem, const Queue& queue) {
  const int elements = 2 * problem.tokens * problem.pairs;
  launch(arithmetic_kernel,
         {.name = "arithmetic",
          .grid = {.x = ceil_div(elements, kThreads)},
          .block = {.x = kThreads},
          .queue = queue},
         problem.in, problem.cosines, problem.sines, problem.out, elements);
}

}  // namespace ultra::kernels::divergence

// Rung 1: a thread per element, and a branch on even or odd.
//
// Idea:   the two lines of the formula, as they stand.
// Cost:   neighbours are lanes of one warp and take different sides: every load, multiplication and
//         store is issued twice, each time for 16 lanes of 32. (A compiler may turn a short branch
//         into instructions that are switched off lane by lane: they are issued all the same.)
// Limit:  twice the instructions, and twice the sectors: both sides of a warp touch the same ones.

#include "kernels/ladders/basics/divergence/divergence.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::divergence {
namespace {

using namespace simt;

constexpr int kThreads = 256;

__global__ void branched_kernel(const float* __restrict__ in, const float* __restrict__ cosines,
                                const float* __restrict__ sines, float* __restrict__ out,
                                int elements) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (branch(i >= elements)) {
    return;
  }
  if (branch(i % 2 == 0)) {
    const float first = ldg(&in[i]);
    const float second = ldg(&in[i + 1]);
    const float cosine = ldg(&cosines[i / 2]);
    const float sine = ldg(&sines[i / 2]);
    stg(&out[i], first * cosine - second * sine);
  } else {
    const float first = ldg(&in[i - 1]);
    const float second = ldg(&in[i]);
    const float cosine = ldg(&cosines[i / 2]);
    const float sine = ldg(&sines[i / 2]);
    stg(&out[i], second * cosine + first * sine);
  }
}

}  // namespace

template <>
void branched<kExecutor>(const Problem& problem, const Queue& queue) {
  const int elements = 2 * problem.tokens * problem.pairs;
  launch(branched_kernel,
         {.name = "branched",
          .grid = {.x = ceil_div(elements, kThreads)},
          .block = {.x = kThreads},
          .queue = queue},
         problem.in, problem.cosines, problem.sines, problem.out, elements);
}

}  // namespace ultra::kernels::divergence

// Rung 2: the same branch, sorted by warps.
//
// Idea:   the first half of a block does the even elements of its pairs, the second half the odd
//         ones: the branch is there, but all lanes of a warp take the same side.
// Gain:   active lanes 16 -> 32 on both sides: half the instructions.
// Limit:  coalescing pays for it: a warp's elements now lie 2 apart, and its requests touch 8
//         sectors for 128 useful bytes. Sorting repairs divergence where work is long and data are
//         few.

#include "kernels/ladders/basics/divergence/divergence.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::divergence {
namespace {

using namespace simt;

constexpr int kPairs = 128;  // of a block of twice as many threads

__global__ void sorted_kernel(const float* __restrict__ in, const float* __restrict__ cosines,
                              const float* __restrict__ sines, float* __restrict__ out, int pairs) {
  const int pair = blockIdx.x * kPairs + threadIdx.x % kPairs;
  if (branch(pair >= pairs)) {
    return;
  }
  if (branch(threadIdx.x < kPairs)) {
    const float first = ldg(&in[2 * pair]);
    const float second = ldg(&in[2 * pair + 1]);
    const float cosine = ldg(&cosines[pair]);
    const float sine = ldg(&sines[pair]);
    stg(&out[2 * pair], first * cosine - second * sine);
  } else {
    const float first = ldg(&in[2 * pair]);
    const float second = ldg(&in[2 * pair + 1]);
    const float cosine = ldg(&cosines[pair]);
    const float sine = ldg(&sines[pair]);
    stg(&out[2 * pair + 1], second * cosine + first * sine);
  }
}

}  // namespace

template <>
void sorted<kExecutor>(const Problem& problem, const Queue& queue) {
  const int pairs = problem.tokens * problem.pairs;
  launch(sorted_kernel,
         {.name = "sorted",
          .grid = {.x = ceil_div(pairs, kPairs)},
          .block = {.x = 2 * kPairs},
          .queue = queue},
         problem.in, problem.cosines, problem.sines, problem.out, pairs);
}

}  // namespace ultra::kernels::divergence

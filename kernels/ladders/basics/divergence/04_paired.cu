// Rung 4: whole pairs per thread.
//
// Idea:   the unit of work is the pair, not the element: a thread that does both elements has
//         nothing to decide. Two pairs are 16 bytes of in and of out, and 8 of each table.
// Gain:   every value is read once: the bytes are the least. A quarter of the threads, each with
//         three loads under way.
// Limit:  the memory itself.

#include "kernels/ladders/basics/divergence/divergence.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::divergence {
namespace {

using namespace simt;

constexpr int kThreads = 256;
constexpr int kPairs = 2;  // of a thread

__device__ __forceinline__ float2 turn(float first, float second, float cosine, float sine) {
  return make_float2(first * cosine - second * sine, second * cosine + first * sine);
}

__global__ void paired_kernel(const float* __restrict__ in, const float* __restrict__ cosines,
                              const float* __restrict__ sines, float* __restrict__ out, int pairs) {
  const int pair = kPairs * (blockIdx.x * kThreads + threadIdx.x);
  if (branch(pair + kPairs <= pairs)) {
    const float4 points = ldg(reinterpret_cast<const float4*>(&in[2 * pair]));
    const float2 cosine = ldg(reinterpret_cast<const float2*>(&cosines[pair]));
    const float2 sine = ldg(reinterpret_cast<const float2*>(&sines[pair]));
    const float2 left = turn(points.x, points.y, cosine.x, sine.x);
    const float2 right = turn(points.z, points.w, cosine.y, sine.y);
    const float4 turned = make_float4(left.x, left.y, right.x, right.y);
    stg(reinterpret_cast<float4*>(&out[2 * pair]), turned);
  } else if (pair < pairs) {  // the last of an odd number
    const float2 point = ldg(reinterpret_cast<const float2*>(&in[2 * pair]));
    const float cosine = ldg(&cosines[pair]);
    const float sine = ldg(&sines[pair]);
    const float2 turned = turn(point.x, point.y, cosine, sine);
    stg(reinterpret_cast<float2*>(&out[2 * pair]), turned);
  }
}

}  // namespace

template <>
void paired<kExecutor>(const Problem& problem, const Queue& queue) {
  const int pairs = problem.tokens * problem.pairs;
  launch(paired_kernel,
         {.name = "paired",
          .grid = {.x = ceil_div(pairs, std::size_t{kThreads} * kPairs)},
          .block = {.x = kThreads},
          .queue = queue},
         problem.in, problem.cosines, problem.sines, problem.out, pairs);
}

}  // namespace ultra::kernels::divergence

// Rung 5: few blocks with much to do, and a second launch for what they found.
//
// Idea:   1024 blocks go through the vector together: each thread loads 16 bytes, the next 16 lie
//         one grid further. It has four sums, so that additions do not wait for each other, and
//         several loads under way. Blocks write their sums side by side; a second launch of one
//         block adds them.
// Gain:   a quarter of the load instructions; shuffles and barriers once per block instead of once
//         per 256 elements; no atomics: every addition has its place, so that equal inputs give
//         equal bits in every run and on every GPU. Atomics add in the order of arrival.
// Limit:  the memory itself: every element is read once, and next to nothing is written.

#include <cmath>

#include "kernels/ladders/basics/reduction/reduction.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::reduction {
namespace {

using namespace simt;

constexpr int kThreads = 256;
constexpr int kVector = 4;  // elements of an access

// The sum over a block's threads, in the first warp; at most 32 warps.
template <int kWarps>
__device__ __forceinline__ float block_sum(float value, float (&sums)[kWarps]) {
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const float sum = warp_sum(value);
  if (lane == 0) {
    sts(&sums[warp], sum);
  }
  // Without this the first warp would read sums that other warps have yet to write.
  __syncthreads();
  float sum_of_lane = 0.0F;
  if (warp == 0 && lane < kWarps) {
    sum_of_lane = lds(&sums[lane]);
  }
  return warp_sum(sum_of_lane);
}

__global__ void __launch_bounds__(kThreads)
    block_sums_kernel(const float* __restrict__ values, float* __restrict__ partials, int n) {
  __shared__ float shared_sums[kThreads / 32];
  const int vectors = n / kVector;
  const int first = blockIdx.x * kThreads + threadIdx.x;
  const int stride = gridDim.x * kThreads;
  float4 sums = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
#pragma unroll 4
  for (int i = first; branch(i < vectors); i += stride) {
    const float4 value = ldg(reinterpret_cast<const float4*>(&values[kVector * i]));
    sums.x += value.x * value.x;
    sums.y += value.y * value.y;
    sums.z += value.z * value.z;
    sums.w += value.w * value.w;
  }
  if (branch(first < n % kVector)) {
    const float value = ldg(&values[kVector * vectors + first]);
    sums.x += value * value;
  }
  const float sum = block_sum((sums.x + sums.y) + (sums.z + sums.w), shared_sums);
  if (threadIdx.x == 0) {
    stg(&partials[blockIdx.x], sum);
  }
}

__global__ void __launch_bounds__(kMostPartials)
    norm_kernel(const float* __restrict__ partials, float* __restrict__ norm, int count) {
  __shared__ float shared_sums[kMostPartials / 32];
  const int i = threadIdx.x;
  const float partial = i < count ? ldg(&partials[i]) : 0.0F;
  const float sum = block_sum(partial, shared_sums);
  if (i == 0) {
    stg(norm, sqrtf(sum));
  }
}

}  // namespace

template <>
void two_launches<kExecutor>(const Problem& problem, const Queue& queue) {
  const unsigned useful = ceil_div(problem.n, std::size_t{kThreads} * kVector);
  const unsigned blocks = useful < kMostPartials ? useful : kMostPartials;
  launch(block_sums_kernel,
         {.name = "block_sums", .grid = {.x = blocks}, .block = {.x = kThreads}, .queue = queue},
         problem.values, problem.partials, problem.n);
  launch(norm_kernel, {.name = "norm", .block = {.x = kMostPartials}, .queue = queue},
         problem.partials, problem.norm, static_cast<int>(blocks));
}

}  // namespace ultra::kernels::reduction

// Rung 3: 16 lanes per group, 16 bytes a lane.
//
// Idea:   eight elements a lane: a warp has two groups, and the shuffles stay within its halves.
// Gain:   half of the requests; 16 bytes under way per thread.
// Limit:  memory. Less only in the epilogue of the kernel that makes x: a norm, or SwiGLU.

#include <cmath>

#include "kernels/quantize_fp8/scale.cuh"
#include "kernels/simt/pack.cuh"

namespace ultra::kernels::quantize_fp8 {
namespace {

using namespace simt;

constexpr int kThreads = 256;
constexpr int kLanes = 16;  // of a group
constexpr int kWidth = kGroup / kLanes;

__global__ void vectorised_kernel(const bf16* __restrict__ x, float* __restrict__ scales,
                                  fp8_e4m3* __restrict__ q, int groups) {
  using Elements = Pack<bf16, kWidth>;
  using Bytes = Pack<fp8_e4m3, kWidth>;
  const int index = blockIdx.x * kThreads + threadIdx.x;
  const int group = index / kLanes;
  Elements elements;
  float largest = 0.0F;
  if (group < groups) {
    elements = ldg(&reinterpret_cast<const Elements*>(x)[index]);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      largest = fmaxf(largest, fabsf(static_cast<float>(elements.values[i])));
    }
  }
  const float scale = scale_of(largest_of<kLanes>(largest));
  if (branch(group >= groups)) {
    return;
  }
  if (index % kLanes == 0) {
    stg(&scales[group], scale);
  }
  Bytes bytes;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    bytes.values[i] = quantized(elements.values[i], scale);
  }
  stg(&reinterpret_cast<Bytes*>(q)[index], bytes);
}

}  // namespace

template <>
void vectorised<kSide>(const Problem& problem, const Queue& queue) {
  const int groups = problem.rows * problem.columns / kGroup;
  launch(vectorised_kernel,
         {.name = "vectorised",
          .grid = {.x = ceil_div(groups, kThreads / kLanes)},
          .block = {.x = kThreads},
          .queue = queue},
         problem.x, problem.scales, problem.quantized, groups);
}

}  // namespace ultra::kernels::quantize_fp8

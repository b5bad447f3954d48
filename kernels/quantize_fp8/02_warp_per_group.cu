// Rung 2: a warp per group, in one kernel.
//
// Idea:   four elements a lane; the largest magnitude by shuffles, while the elements wait in
//         registers.
// Gain:   x is read once: 3 bytes per element and a scale for 128 of them, the least.
// Limit:  requests of 8 bytes a lane to read and 4 to write; 8 bytes under way per thread.

#include <cmath>

#include "kernels/quantize_fp8/scale.cuh"
#include "kernels/simt/pack.cuh"

namespace ultra::kernels::quantize_fp8 {
namespace {

using namespace simt;

constexpr int kThreads = 256;
constexpr int kLanes = 32;  // of a group
constexpr int kWidth = kGroup / kLanes;

__global__ void warp_per_group_kernel(const bf16* __restrict__ x, float* __restrict__ scales,
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
void warp_per_group<kSide>(const Problem& problem, const Queue& queue) {
  const int groups = problem.rows * problem.columns / kGroup;
  launch(warp_per_group_kernel,
         {.name = "warp_per_group",
          .grid = {.x = ceil_div(groups, kThreads / kLanes)},
          .block = {.x = kThreads},
          .queue = queue},
         problem.x, problem.scales, problem.quantized, groups);
}

}  // namespace ultra::kernels::quantize_fp8

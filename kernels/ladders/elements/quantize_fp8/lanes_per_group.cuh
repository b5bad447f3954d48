#pragma once
/// @file
/// The kernel of rungs 2 and 3, which differ in how many lanes share a group.

#include <cmath>

#include "kernels/ladders/elements/quantize_fp8/scale.cuh"
#include "kernels/simt/pack.cuh"

namespace ultra::kernels::quantize_fp8 {
namespace {

using namespace simt;

constexpr int kThreads = 256;

/// @brief A group's elements wait in the registers of `kLanes` lanes, in one access each, while
/// shuffles find the largest.
template <int kLanes>
__global__ void lanes_per_group_kernel(const bf16* __restrict__ x, float* __restrict__ scales,
                                       fp8_e4m3* __restrict__ q, int groups) {
  constexpr int kWidth = kGroup / kLanes;
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

/// @brief Launches it for all groups of a problem.
/// @param name  of the launch, for reports.
template <int kLanes>
void launch_lanes_per_group(const char* name, const Problem& problem, const Queue& queue) {
  const int groups = problem.rows * problem.columns / kGroup;
  launch(lanes_per_group_kernel<kLanes>,
         {.name = name,
          .grid = {.x = ceil_div(groups, kThreads / kLanes)},
          .block = {.x = kThreads},
          .queue = queue},
         problem.x, problem.scales, problem.quantized, groups);
}

}  // namespace
}  // namespace ultra::kernels::quantize_fp8

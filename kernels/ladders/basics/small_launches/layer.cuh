#pragma once
/// @file
/// A layer of the chain: y = weights x. A warp has a row of weights, which it holds in registers
/// before it looks at x.

#include "kernels/ladders/basics/small_launches/small_launches.hpp"
#include "kernels/simt/dependent_launch.cuh"
#include "kernels/simt/pack.cuh"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::small_launches {
namespace {

using namespace simt;

constexpr int kWarps = 4;  // of a block
constexpr int kWidth = 4;  // floats of an access
constexpr int kPacks = kMostHidden / (32 * kWidth);

using Floats = Pack<float, kWidth>;

// [region layer]
template <Start start>
__global__ void __launch_bounds__(32 * kWarps)
    layer_kernel(const float* weights, const float* x, float* y, int hidden) {
  const int row = blockIdx.x * kWarps + threadIdx.y;
  const float* const own = weights + static_cast<std::size_t>(row) * hidden;
  Floats held[kPacks];
#pragma unroll
  for (int i = 0; i < kPacks; ++i) {
    const int column = (i * 32 + static_cast<int>(threadIdx.x)) * kWidth;
    held[i] = {};
    if (row < hidden && column < hidden) {
      held[i] = ldg(reinterpret_cast<const Floats*>(&own[column]));
    }
  }
  if constexpr (start == Start::kBesideTheKernelBefore) {
    let_next_kernel_begin();   // it loads its weights, and then waits for us
    wait_for_kernel_before();  // from here on x is what the kernel before has written
  }
  float sum = 0.0F;
#pragma unroll
  for (int i = 0; i < kPacks; ++i) {
    const int column = (i * 32 + static_cast<int>(threadIdx.x)) * kWidth;
    if (column < hidden) {
      const Floats values = ldg(reinterpret_cast<const Floats*>(&x[column]));
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
        sum += held[i].values[j] * values.values[j];
      }
    }
  }
  sum = warp_sum(sum);
  if (threadIdx.x == 0 && row < hidden) {
    stg(&y[row], sum);
  }
}
// [/region]

// Queues all layers.
template <Start start>
void launch_layers(const Problem& problem, const Queue& queue, const char* name) {
  const std::size_t hidden = static_cast<std::size_t>(problem.hidden);
  const float* x = problem.x;
  for (int layer = 0; layer < problem.layers; ++layer) {
    float* const y = problem.states + static_cast<std::size_t>(layer) * hidden;
    launch(layer_kernel<start>,
           {.name = name,
            .grid = {.x = ceil_div(hidden, kWarps)},
            .block = {.x = 32, .y = kWarps},
            .queue = queue,
            .start = start},
           problem.weights + static_cast<std::size_t>(layer) * hidden * hidden, x, y,
           problem.hidden);
    x = y;
  }
}

}  // namespace
}  // namespace ultra::kernels::small_launches

// Rung 1: scales first, then elements.
//
// Idea:   a thread finds the largest magnitude of its group; a second kernel divides and rounds.
// Cost:   x is read twice, and the first time badly: neighbouring lanes read 256 bytes apart, a
//         sector for each 2 bytes.
// Limit:  memory.

#include <cmath>

#include "kernels/ladders/elements/quantize_fp8/scale.cuh"

namespace ultra::kernels::quantize_fp8 {
namespace {

using namespace simt;

constexpr int kThreads = 256;

__global__ void scales_kernel(const bf16* __restrict__ x, float* __restrict__ scales, int groups) {
  const int group = blockIdx.x * kThreads + threadIdx.x;
  if (branch(group < groups)) {
    float largest = 0.0F;
    for (int i = 0; i < kGroup; ++i) {
      const bf16 element = ldg(&x[static_cast<std::size_t>(group) * kGroup + i]);
      largest = fmaxf(largest, fabsf(static_cast<float>(element)));
    }
    stg(&scales[group], scale_of(largest));
  }
}

__global__ void elements_kernel(const bf16* __restrict__ x, const float* __restrict__ scales,
                                fp8_e4m3* __restrict__ q, int count) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (branch(i < count)) {
    const bf16 element = ldg(&x[i]);
    const float scale = ldg(&scales[i / kGroup]);
    stg(&q[i], quantized(element, scale));
  }
}

}  // namespace

template <>
void two_kernels<kExecutor>(const Problem& problem, const Queue& queue) {
  const int count = problem.rows * problem.columns;
  const int groups = count / kGroup;
  launch(scales_kernel,
         {.name = "scales",
          .grid = {.x = ceil_div(groups, kThreads)},
          .block = {.x = kThreads},
          .queue = queue},
         problem.x, problem.scales, groups);
  launch(elements_kernel,
         {.name = "elements",
          .grid = {.x = ceil_div(count, kThreads)},
          .block = {.x = kThreads},
          .queue = queue},
         problem.x, problem.scales, problem.quantized, count);
}

}  // namespace ultra::kernels::quantize_fp8

#pragma once
/// @file
/// The residual addition as a kernel of its own, for the rungs that do not fuse it: 12 bytes moved
/// per addition, 4 of which the next kernel reads again.

#include "kernels/ladders/rows/rms_norm/rms_norm.hpp"
#include "kernels/simt/pack.cuh"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::rms_norm {
namespace {

// One thread per access of `width` floats; `count` is in such accesses.
template <int width>
__global__ void add_kernel(const float* __restrict__ x, const float* __restrict__ residual,
                           float* __restrict__ h, int count) {
  using Floats = simt::Pack<float, width>;
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (simt::branch(index >= count)) {
    return;
  }
  Floats sum = simt::ldg(&reinterpret_cast<const Floats*>(x)[index]);
  const Floats other = simt::ldg(&reinterpret_cast<const Floats*>(residual)[index]);
#pragma unroll
  for (int i = 0; i < width; ++i) {
    sum.values[i] += other.values[i];
  }
  simt::stg(&reinterpret_cast<Floats*>(h)[index], sum);
}

/// @brief Queues h = x + residual. Requires: width divides the elements of a row.
template <int width>
void add(const Problem& problem, const simt::Queue& queue) {
  constexpr unsigned kThreads = 256;
  const int count = problem.rows * (problem.hidden / width);
  simt::launch(add_kernel<width>,
               {.name = "add",
                .grid = {.x = simt::ceil_div(count, kThreads)},
                .block = {.x = kThreads},
                .queue = queue},
               problem.x, problem.residual, problem.h, count);
}

}  // namespace
}  // namespace ultra::kernels::rms_norm

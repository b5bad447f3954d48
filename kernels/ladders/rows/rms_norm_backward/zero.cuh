#pragma once
/// @file
/// Zeroes d_weight, for the rungs that add to it by atomics.

#include "kernels/ladders/rows/rms_norm_backward/rms_norm_backward.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::rms_norm_backward {
namespace {

// One thread per element.
__global__ void zero_kernel(float* __restrict__ values, int count) {
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (simt::branch(index < count)) {
    simt::stg(&values[index], 0.0F);
  }
}

/// @brief Queues d_weight = 0.
void zero_d_weight(const Problem& problem, const simt::Queue& queue) {
  constexpr unsigned kThreads = 256;
  simt::launch(zero_kernel,
               {.name = "zero",
                .grid = {.x = simt::ceil_div(problem.hidden, kThreads)},
                .block = {.x = kThreads},
                .queue = queue},
               problem.d_weight, problem.hidden);
}

}  // namespace
}  // namespace ultra::kernels::rms_norm_backward

// Rung 1: one thread per row, atomics for d_weight.
//
// Idea:   the definition. A thread sums its row's products, then goes through the row again; for
//         d_weight every row adds to the same `hidden` numbers.
// Cost:   32 sectors per request as in the forward pass; and the 32 lanes of an atomic all go to
//         one address, one after the other.
// Limit:  the atomics: rows x hidden of them, in an order that changes from run to run.

#include "kernels/ladders/rows/rms_norm_backward/rms_norm_backward.hpp"
#include "kernels/ladders/rows/rms_norm_backward/zero.cuh"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::rms_norm_backward {
namespace {

using namespace simt;

constexpr int kThreads = 128;

__global__ void thread_per_row_kernel(const float* __restrict__ d_y, const float* __restrict__ x,
                                      const float* __restrict__ weight,
                                      const float* __restrict__ reciprocal_rms,
                                      float* __restrict__ d_x, float* __restrict__ d_weight,
                                      int rows, int hidden) {
  const int row = blockIdx.x * kThreads + threadIdx.x;
  if (branch(row >= rows)) {
    return;
  }
  const std::size_t first = static_cast<std::size_t>(row) * hidden;
  const float reciprocal = ldg(&reciprocal_rms[row]);
  float dot = 0.0F;
  for (int column = 0; column < hidden; ++column) {
    const float gradient = ldg(&d_y[first + column]);
    const float value = ldg(&x[first + column]);
    const float scale = ldg(&weight[column]);
    dot += gradient * value * scale;
    atomicAdd(&d_weight[column], gradient * value * reciprocal);
  }
  const float mean = dot * reciprocal * reciprocal / static_cast<float>(hidden);
  for (int column = 0; column < hidden; ++column) {
    const float gradient = ldg(&d_y[first + column]);
    const float value = ldg(&x[first + column]);
    const float scale = ldg(&weight[column]);
    stg(&d_x[first + column], reciprocal * (gradient * scale - value * mean));
  }
}

}  // namespace

template <>
void thread_per_row<kExecutor>(const Problem& problem, const Queue& queue) {
  zero_d_weight(problem, queue);
  launch(thread_per_row_kernel,
         {.name = "thread_per_row",
          .grid = {.x = ceil_div(problem.rows, kThreads)},
          .block = {.x = kThreads},
          .queue = queue},
         problem.d_y, problem.x, problem.weight, problem.reciprocal_rms, problem.d_x,
         problem.d_weight, problem.rows, problem.hidden);
}

}  // namespace ultra::kernels::rms_norm_backward

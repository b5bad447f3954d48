// Rung 2: one warp per row.
//
// Idea:   lanes side by side along the row, sums by shuffles; the atomics of a warp go to 32
//         different addresses next to each other.
// Gain:   sectors per request 32 -> 4; an atomic request no longer adds 32 times to one address.
// Limit:  still rows x hidden atomics, all on the same `hidden` numbers; every element is read
//         twice.

#include "kernels/ladders/rows/rms_norm_backward/rms_norm_backward.hpp"
#include "kernels/ladders/rows/rms_norm_backward/zero.cuh"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::rms_norm_backward {
namespace {

using namespace simt;

constexpr int kRowsPerBlock = 4;  // a warp each

__global__ void warp_per_row_kernel(const float* __restrict__ d_y, const float* __restrict__ x,
                                    const float* __restrict__ weight,
                                    const float* __restrict__ reciprocal_rms,
                                    float* __restrict__ d_x, float* __restrict__ d_weight, int rows,
                                    int hidden) {
  const int row = blockIdx.x * kRowsPerBlock + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (branch(row >= rows)) {
    return;  // a whole warp: the shuffles below have all lanes
  }
  const std::size_t first = static_cast<std::size_t>(row) * hidden;
  const float reciprocal = ldg(&reciprocal_rms[row]);
  float dot = 0.0F;
  for (int column = lane; column < hidden; column += 32) {
    const float gradient = ldg(&d_y[first + column]);
    const float value = ldg(&x[first + column]);
    const float scale = ldg(&weight[column]);
    dot += gradient * value * scale;
    atomicAdd(&d_weight[column], gradient * value * reciprocal);
  }
  const float mean = warp_sum(dot) * reciprocal * reciprocal / static_cast<float>(hidden);
  for (int column = lane; column < hidden; column += 32) {
    const float gradient = ldg(&d_y[first + column]);
    const float value = ldg(&x[first + column]);
    const float scale = ldg(&weight[column]);
    stg(&d_x[first + column], reciprocal * (gradient * scale - value * mean));
  }
}

}  // namespace

template <>
void warp_per_row<kExecutor>(const Problem& problem, const Queue& queue) {
  zero_d_weight(problem, queue);
  launch(warp_per_row_kernel,
         {.name = "warp_per_row",
          .grid = {.x = ceil_div(problem.rows, kRowsPerBlock)},
          .block = {.x = 32 * kRowsPerBlock},
          .queue = queue},
         problem.d_y, problem.x, problem.weight, problem.reciprocal_rms, problem.d_x,
         problem.d_weight, problem.rows, problem.hidden);
}

}  // namespace ultra::kernels::rms_norm_backward

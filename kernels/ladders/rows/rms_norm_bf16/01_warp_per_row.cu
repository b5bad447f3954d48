// Rung 1: a warp per row, one element per lane and access.
//
// Idea:   the warp adds, stores h and sums the squares of what it stored; then it goes through its
//         row of h once more. Each lane reads back what it wrote itself.
// Cost:   10 bytes per element asked for, where 8 are the least; 2 bytes a lane, half of each
//         request unused.
// Limit:  requests, and 32 lanes for a row of thousands.

#include "kernels/ladders/rows/rms_norm_bf16/rms_norm_bf16.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::rms_norm_bf16 {
namespace {

using namespace simt;

constexpr int kThreads = 128;

__global__ void warp_per_row_kernel(const bf16* __restrict__ x, const bf16* __restrict__ residual,
                                    const bf16* __restrict__ weight, bf16* h, bf16* y,
                                    float* reciprocal_rms, int rows, int hidden, float epsilon) {
  const int lane = threadIdx.x % 32;
  const int row = blockIdx.x * (kThreads / 32) + threadIdx.x / 32;
  if (branch(row >= rows)) {
    return;
  }
  const std::size_t first = static_cast<std::size_t>(row) * hidden;
  float squares = 0.0F;
  for (int column = lane; column < hidden; column += 32) {
    const float left = static_cast<float>(ldg(&x[first + column]));
    const float right = static_cast<float>(ldg(&residual[first + column]));
    const bf16 sum = __float2bfloat16(left + right);
    stg(&h[first + column], sum);
    squares += static_cast<float>(sum) * static_cast<float>(sum);
  }
  const float reciprocal = rsqrtf(warp_sum(squares) / static_cast<float>(hidden) + epsilon);
  if (branch(lane == 0)) {
    stg(&reciprocal_rms[row], reciprocal);
  }
  for (int column = lane; column < hidden; column += 32) {
    const float sum = static_cast<float>(ldg(&h[first + column]));
    const float scale = static_cast<float>(ldg(&weight[column]));
    stg(&y[first + column], __float2bfloat16(sum * (reciprocal * scale)));
  }
}

}  // namespace

template <>
void warp_per_row<kExecutor>(const Problem& problem, const Queue& queue) {
  launch(warp_per_row_kernel,
         {.name = "warp_per_row",
          .grid = {.x = ceil_div(problem.rows, kThreads / 32)},
          .block = {.x = kThreads},
          .queue = queue},
         problem.x, problem.residual, problem.weight, problem.h, problem.y, problem.reciprocal_rms,
         problem.rows, problem.hidden, problem.epsilon);
}

}  // namespace ultra::kernels::rms_norm_bf16

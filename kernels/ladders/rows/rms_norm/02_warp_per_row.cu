// Rung 2: one warp per row, whose lanes read neighbours.
//
// Idea:   the lanes of a warp walk along a row side by side, 32 columns a step; five shuffles turn
//         their partial sums of squares into the row's.
// Gain:   sectors per request 32 -> 4; 32 times as many threads.
// Limit:  requests of 128 bytes: the load units issue four times as many as they need to.

#include "kernels/ladders/rows/rms_norm/add.cuh"
#include "kernels/ladders/rows/rms_norm/rms_norm.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::rms_norm {
namespace {

using namespace simt;

constexpr int kRowsPerBlock = 4;  // a warp each

__global__ void warp_per_row_kernel(const float* __restrict__ h, const float* __restrict__ weight,
                                    float* __restrict__ y, float* __restrict__ reciprocal_rms,
                                    int rows, int hidden, float epsilon) {
  const int row = blockIdx.x * kRowsPerBlock + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (branch(row >= rows)) {
    return;  // a whole warp: the shuffles below have all lanes
  }
  const std::size_t first = static_cast<std::size_t>(row) * hidden;
  float squares = 0.0F;
  for (int column = lane; column < hidden; column += 32) {
    const float value = ldg(&h[first + column]);
    squares += value * value;
  }
  const float reciprocal = rsqrtf(warp_sum(squares) / static_cast<float>(hidden) + epsilon);
  if (branch(lane == 0)) {
    stg(&reciprocal_rms[row], reciprocal);
  }
  for (int column = lane; column < hidden; column += 32) {
    const float value = ldg(&h[first + column]);
    const float scale = ldg(&weight[column]);
    stg(&y[first + column], value * reciprocal * scale);
  }
}

}  // namespace

template <>
void warp_per_row<kExecutor>(const Problem& problem, const Queue& queue) {
  add<1>(problem, queue);
  launch(warp_per_row_kernel,
         {.name = "warp_per_row",
          .grid = {.x = ceil_div(problem.rows, kRowsPerBlock)},
          .block = {.x = 32 * kRowsPerBlock},
          .queue = queue},
         problem.h, problem.weight, problem.y, problem.reciprocal_rms, problem.rows, problem.hidden,
         problem.epsilon);
}

}  // namespace ultra::kernels::rms_norm

// Rung 1: h = x + residual in one kernel, then one thread per row.
//
// Idea:   the definition. A thread sums the squares of its row, then goes through the row again.
// Cost:   the lanes of a warp stand in 32 rows: 32 sectors for 128 useful bytes, in each pass; and
//         a GPU with 8192 rows has work for 8192 threads of its 270,000.
// Limit:  sectors that the first-level cache serves, and too few loads in flight.

#include "kernels/ladders/rows/rms_norm/add.cuh"
#include "kernels/ladders/rows/rms_norm/rms_norm.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::rms_norm {
namespace {

using namespace simt;

constexpr int kThreads = 128;

__global__ void thread_per_row_kernel(const float* __restrict__ h, const float* __restrict__ weight,
                                      float* __restrict__ y, float* __restrict__ reciprocal_rms,
                                      int rows, int hidden, float epsilon) {
  const int row = blockIdx.x * kThreads + threadIdx.x;
  if (branch(row >= rows)) {
    return;
  }
  const std::size_t first = static_cast<std::size_t>(row) * hidden;
  float squares = 0.0F;
  for (int column = 0; column < hidden; ++column) {
    const float value = ldg(&h[first + column]);
    squares += value * value;
  }
  const float reciprocal = rsqrtf(squares / static_cast<float>(hidden) + epsilon);
  stg(&reciprocal_rms[row], reciprocal);
  for (int column = 0; column < hidden; ++column) {
    const float value = ldg(&h[first + column]);
    const float scale = ldg(&weight[column]);
    stg(&y[first + column], value * reciprocal * scale);
  }
}

}  // namespace

template <>
void thread_per_row<kExecutor>(const Problem& problem, const Queue& queue) {
  add<1>(problem, queue);
  launch(thread_per_row_kernel,
         {.name = "thread_per_row",
          .grid = {.x = ceil_div(problem.rows, kThreads)},
          .block = {.x = kThreads},
          .queue = queue},
         problem.h, problem.weight, problem.y, problem.reciprocal_rms, problem.rows, problem.hidden,
         problem.epsilon);
}

}  // namespace ultra::kernels::rms_norm

// Rung 2: a warp per row.
//
// Idea:   lane l takes the elements l, l + 32, l + 64, ... of the row: the lanes read neighbours.
//         What each found goes around by shuffles, without shared memory and without barriers.
// Gain:   sectors per request 32 -> 4 where rows begin at a sector; 32 times as many threads.
// Limit:  three reads of the row for one write: 16 bytes per element, the least is 8. Passes after
//         the first find short rows in a cache.

#include <cmath>

#include "kernels/ladders/rows/softmax/softmax.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::softmax {
namespace {

using namespace simt;

constexpr int kRows = 4;  // of a block: one per warp

__global__ void warp_per_row_kernel(const float* __restrict__ in, float* __restrict__ out, int rows,
                                    int columns) {
  const int row = blockIdx.x * kRows + threadIdx.y;
  const int lane = threadIdx.x;
  if (branch(row >= rows)) {
    return;
  }
  const float* const x = &in[static_cast<std::size_t>(row) * columns];
  float* const y = &out[static_cast<std::size_t>(row) * columns];
  float largest = ldg(&x[0]);  // also of a lane without elements
  for (int column = lane; branch(column < columns); column += 32) {
    largest = fmaxf(largest, ldg(&x[column]));
  }
  largest = warp_max(largest);
  float sum = 0.0F;
  for (int column = lane; branch(column < columns); column += 32) {
    sum += expf(ldg(&x[column]) - largest);
  }
  const float factor = 1.0F / warp_sum(sum);
  for (int column = lane; branch(column < columns); column += 32) {
    const float value = expf(ldg(&x[column]) - largest);
    stg(&y[column], value * factor);
  }
}

}  // namespace

template <>
void warp_per_row<kExecutor>(const Problem& problem, const Queue& queue) {
  launch(warp_per_row_kernel,
         {.name = "warp_per_row",
          .grid = {.x = ceil_div(problem.rows, kRows)},
          .block = {.x = 32, .y = kRows},
          .queue = queue},
         problem.in, problem.out, problem.rows, problem.columns);
}

}  // namespace ultra::kernels::softmax

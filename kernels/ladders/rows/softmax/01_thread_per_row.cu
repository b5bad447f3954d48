// Rung 1: one thread per row.
//
// Idea:   the definition, in three passes over the row: the largest element, the sum of the
//         exponentials, the quotients.
// Cost:   3 loads and a store per element, 2 exponentials. The lanes of a warp read 32 rows: 32
//         sectors per request as soon as rows have 8 elements. A matrix of few rows occupies few
//         warps.
// Limit:  the sectors: a warp's 32 rows only stay in the first-level cache while they are short.

#include <cmath>

#include "kernels/ladders/rows/softmax/softmax.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::softmax {
namespace {

using namespace simt;

constexpr int kThreads = 128;

__global__ void thread_per_row_kernel(const float* __restrict__ in, float* __restrict__ out,
                                      int rows, int columns) {
  const int row = blockIdx.x * kThreads + threadIdx.x;
  if (branch(row >= rows)) {
    return;
  }
  const float* const x = &in[static_cast<std::size_t>(row) * columns];
  float* const y = &out[static_cast<std::size_t>(row) * columns];
  float largest = ldg(&x[0]);
  for (int column = 1; column < columns; ++column) {
    largest = fmaxf(largest, ldg(&x[column]));
  }
  float sum = 0.0F;
  for (int column = 0; column < columns; ++column) {
    sum += expf(ldg(&x[column]) - largest);
  }
  for (int column = 0; column < columns; ++column) {
    const float value = expf(ldg(&x[column]) - largest);
    stg(&y[column], value / sum);
  }
}

}  // namespace

template <>
void thread_per_row<kExecutor>(const Problem& problem, const Queue& queue) {
  launch(thread_per_row_kernel,
         {.name = "thread_per_row",
          .grid = {.x = ceil_div(problem.rows, kThreads)},
          .block = {.x = kThreads},
          .queue = queue},
         problem.in, problem.out, problem.rows, problem.columns);
}

}  // namespace ultra::kernels::softmax

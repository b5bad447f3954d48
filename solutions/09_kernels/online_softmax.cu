// Rung 3 of softmax: the largest element and the sum in one pass.
//
// Idea:   a lane keeps the largest element so far and the sum of exp(x - largest). When a larger
//         one comes, the sum so far is exp(old - new) times too large, and is multiplied by that.
//         One of the two exponents, old - new or x - largest, is always 0: one exponential per
//         element. In the end the lanes' sums are brought to the row's largest element in the same
//         way, and added.
// Gain:   2 reads and 1 write per element instead of 3 and 1: 12 bytes instead of 16.
// Why -FLT_MAX: masked elements are -infinity. If a lane's first is one, and "nothing so far" were
//         -infinity, too, their difference would be NaN; exp(-infinity - -FLT_MAX) is 0.
// Limit:  the second read, 4 bytes at a time. The trick lives on in flash attention, whose rows are
//         never in memory at all.
// Source: Milakov & Gimelshein 2018, arXiv 1805.02867, algorithm 3.

#include <cfloat>
#include <cmath>

#include "kernels/ladders/rows/softmax/softmax.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::softmax {
namespace {

using namespace simt;

constexpr int kRows = 4;  // of a block: one per warp

__global__ void online_kernel(const float* __restrict__ in, float* __restrict__ out, int rows,
                              int columns) {
  const int row = blockIdx.x * kRows + threadIdx.y;
  const int lane = threadIdx.x;
  if (branch(row >= rows)) {
    return;
  }
  const float* const x = &in[static_cast<std::size_t>(row) * columns];
  float* const y = &out[static_cast<std::size_t>(row) * columns];
  float largest = -FLT_MAX;
  float sum = 0.0F;
  for (int column = lane; branch(column < columns); column += 32) {
    const float value = ldg(&x[column]);
    const float smaller = expf(-fabsf(value - largest));
    sum = value > largest ? sum * smaller + 1.0F : sum + smaller;
    largest = fmaxf(largest, value);
  }
  const float row_largest = warp_max(largest);
  const float row_sum = warp_sum(sum * expf(largest - row_largest));
  const float factor = 1.0F / row_sum;
  for (int column = lane; branch(column < columns); column += 32) {
    const float value = expf(ldg(&x[column]) - row_largest);
    stg(&y[column], value * factor);
  }
}

}  // namespace

template <>
void online<kExecutor>(const Problem& problem, const Queue& queue) {
  launch(online_kernel,
         {.name = "online",
          .grid = {.x = ceil_div(problem.rows, kRows)},
          .block = {.x = 32, .y = kRows},
          .queue = queue},
         problem.in, problem.out, problem.rows, problem.columns);
}

}  // namespace ultra::kernels::softmax

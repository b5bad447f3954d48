// Rung 1: one thread per element of c, and nothing thought through.
//
// Idea:   the definition. Each thread runs along a row of a and a column of b.
// Cost:   2 K loads for K multiply-adds. Lanes of a warp stand below each other (threadIdx.x counts
//         rows), so a load of a touches 32 rows: 32 sectors for 128 useful bytes.
// Limit:  the number of sectors that the first-level cache can serve, long before any arithmetic.

#include "kernels/ladders/matmul/matmul_fp32/matmul_fp32.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::matmul_fp32 {
namespace {

using namespace simt;

constexpr int kBlock = 32;  // threads in each direction

// [region naive]
__global__ void naive_kernel(const float* __restrict__ a, const float* __restrict__ b,
                             float* __restrict__ c, int rows, int columns, int depth) {
  const int row = blockIdx.x * kBlock + threadIdx.x;
  const int column = blockIdx.y * kBlock + threadIdx.y;
  if (branch(row >= rows || column >= columns)) {
    return;
  }
  float sum = 0.0F;
  for (int k = 0; k < depth; ++k) {
    const float left = ldg(&a[row * depth + k]);
    const float right = ldg(&b[k * columns + column]);
    sum += left * right;
  }
  stg(&c[row * columns + column], sum);
}
// [/region]

}  // namespace

template <>
void naive<kExecutor>(const Problem& problem, const Queue& queue) {
  launch(naive_kernel,
         {.name = "naive",
          .grid = {.x = ceil_div(problem.rows, kBlock), .y = ceil_div(problem.columns, kBlock)},
          .block = {.x = kBlock, .y = kBlock},
          .queue = queue},
         problem.a, problem.b, problem.c, problem.rows, problem.columns, problem.depth);
}

}  // namespace ultra::kernels::matmul_fp32

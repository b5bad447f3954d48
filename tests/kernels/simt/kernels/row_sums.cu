// Sums of rows: each warp by shuffles, the block through dynamic shared memory.

#include "kernels/simt/simt.cuh"
#include "tests/kernels/simt/kernels/kernels.hpp"

namespace ultra::simt::test {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;

__global__ void row_sums_kernel(const float* in, float* sums, int* done, int columns) {
  auto* const sum_of_warp = dynamic_shared<float>();  // (kWarps)
  const int thread = threadIdx.x;
  const int row = blockIdx.x;
  float sum = 0.0F;
  for (int column = thread; column < columns; column += kThreads) {
    sum += ldg(&in[row * columns + column]);
  }
  sum = warp_sum(sum);
  if (branch(thread % 32 == 0)) {
    sts(&sum_of_warp[thread / 32], sum);
  }
  __syncthreads();  // the first warp reads every warp's sum
  if (branch(thread < 32)) {
    float total = 0.0F;
    if (branch(thread < kWarps)) {
      total = lds(&sum_of_warp[thread]);
    }
    total = warp_sum(total);
    if (branch(thread == 0)) {
      stg(&sums[row], total);
      atomicAdd(done, 1);
    }
  }
}

}  // namespace

template <>
void row_sums<kExecutor>(const float* in, float* sums, int* done, int rows, int columns,
                         const Queue& queue) {
  launch(row_sums_kernel,
         {.name = "row_sums",
          .grid = {.x = static_cast<unsigned>(rows)},
          .block = {.x = kThreads},
          .shared_bytes = kWarps * sizeof(float),
          .queue = queue},
         in, sums, done, columns);
}

}  // namespace ultra::simt::test

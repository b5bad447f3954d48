// Rung 6: rows that no block can hold, such as the logits of a large vocabulary.
//
// Idea:   rung 3's online pass by a whole block, with 32 bytes per thread under way; then a second
//         pass. It goes backwards: what the first pass read last is what the caches still have.
// Gain:   rows of any length. 12 bytes per element are asked for; the second read of rows that fit
//         the caches does not reach the memory.
// Limit:  for rows beyond that, the second read. Only a cluster of blocks, which together hold the
//         row in shared memory, reads it once.

#include "kernels/ladders/rows/softmax/row_in_registers.cuh"
#include "kernels/ladders/rows/softmax/softmax.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::softmax {
namespace {

using namespace simt;

constexpr int kMostWarps = 32;  // of a block
constexpr int kVectors = 2;     // of a thread at a time

template <bool kIsAligned>
__global__ void __launch_bounds__(kMostWarps * 32, 2)
    long_rows_kernel(const float* __restrict__ in, float* __restrict__ out, int columns) {
  __shared__ float largest_of_warps[kMostWarps];
  __shared__ float sums_of_warps[kMostWarps];
  const int thread = threadIdx.x;
  const int threads = blockDim.x;
  const int lane = thread % 32;
  const int step = threads * kVectors * kVector;
  const float* const x = &in[static_cast<std::size_t>(blockIdx.x) * columns];
  float* const y = &out[static_cast<std::size_t>(blockIdx.x) * columns];

  // What a row does not have counts as -FLT_MAX: should a thread have nothing else, its sum
  // vanishes when it is brought to the row's largest element.
  float largest = -FLT_MAX;
  float sum = 0.0F;
  for (int first = 0; first < columns; first += step) {
    RowPart<kVectors, kIsAligned> part;
    part.load(&x[first], columns - first, thread, threads);
    const float before = largest;
    largest = fmaxf(largest, part.largest());
    sum = sum * expf(before - largest) + part.exponentiate(largest);
  }
  const float warp_largest = warp_max(largest);
  const float sum_of_own_warp = warp_sum(sum * expf(largest - warp_largest));
  if (lane == 0) {
    sts(&largest_of_warps[thread / 32], warp_largest);
    sts(&sums_of_warps[thread / 32], sum_of_own_warp);
  }
  // Without this a warp would combine what other warps have yet to write.
  __syncthreads();
  const int warp_of_lane = lane < threads / 32 ? lane : 0;
  const float lane_largest = lds(&largest_of_warps[warp_of_lane]);
  const float row_largest = warp_max(lane_largest);
  const float lane_sum = lane < threads / 32 ? lds(&sums_of_warps[lane]) : 0.0F;
  const float factor = 1.0F / warp_sum(lane_sum * expf(lane_largest - row_largest));

  for (int first = (columns - 1) / step * step; first >= 0; first -= step) {
    RowPart<kVectors, kIsAligned> part;
    part.load(&x[first], columns - first, thread, threads);
    static_cast<void>(part.exponentiate(row_largest));
    part.store(&y[first], columns - first, thread, threads, factor);
  }
}

}  // namespace

template <>
void long_rows<kExecutor>(const Problem& problem, const Queue& queue) {
  const unsigned useful = ceil_div(problem.columns, std::size_t{32} * kVectors * kVector);
  launch(problem.columns % kVector == 0 ? long_rows_kernel<true> : long_rows_kernel<false>,
         {.name = "long_rows",
          .grid = {.x = static_cast<unsigned>(problem.rows)},
          .block = {.x = 32 * (useful < kMostWarps ? useful : kMostWarps)},
          .queue = queue},
         problem.in, problem.out, problem.columns);
}

}  // namespace ultra::kernels::softmax

// Rung 5: a block keeps a long row in registers.
//
// Idea:   up to 1024 threads share the row, with 16 or 32 elements each. Warps reduce by shuffles,
//         then each warp leaves one number in shared memory, and every warp reduces these numbers
//         itself: one barrier per reduction, and no second one to hand the result back.
// Gain:   one read and one write also for rows of up to 32768 elements, and many warps per row
//         where there are few rows.
// Limit:  the memory itself; and rows that no block can hold.

#include "kernels/ladders/rows/softmax/row_in_registers.cuh"
#include "kernels/ladders/rows/softmax/softmax.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::softmax {
namespace {

using namespace simt;

constexpr int kFewVectors = 4;   // of a thread, for rows of up to 16384 elements
constexpr int kManyVectors = 8;  // for longer ones
constexpr int kMostWarps = 32;

template <int kVectors, bool kIsAligned>
__global__ void __launch_bounds__(kMostWarps * 32)
    block_per_row_kernel(const float* __restrict__ in, float* __restrict__ out, int columns) {
  __shared__ float largest_of_warps[kMostWarps];
  __shared__ float sums_of_warps[kMostWarps];
  const int thread = threadIdx.x;
  const int threads = blockDim.x;
  const int lane = thread % 32;
  const int warps = threads / 32;
  const std::size_t first = static_cast<std::size_t>(blockIdx.x) * columns;
  RowPart<kVectors, kIsAligned> part;
  part.load(&in[first], columns, thread, threads);

  const float warp_largest = warp_max(part.largest());
  if (lane == 0) {
    sts(&largest_of_warps[thread / 32], warp_largest);
  }
  // Without this a warp would take the largest of warps that have yet to write theirs.
  __syncthreads();
  const float largest = warp_max(lds(&largest_of_warps[lane < warps ? lane : 0]));

  const float sum_of_own_warp = warp_sum(part.exponentiate(largest));
  if (lane == 0) {
    sts(&sums_of_warps[thread / 32], sum_of_own_warp);
  }
  // Without this a warp would add sums of warps that have yet to write theirs.
  __syncthreads();
  const float sum = warp_sum(lane < warps ? lds(&sums_of_warps[lane]) : 0.0F);
  part.store(&out[first], columns, thread, threads, 1.0F / sum);
}

template <int kVectors>
void launch_block_per_row(const Problem& problem, const Queue& queue) {
  const unsigned warps = ceil_div(problem.columns, std::size_t{32} * kVector * kVectors);
  launch(problem.columns % kVector == 0 ? block_per_row_kernel<kVectors, true>
                                        : block_per_row_kernel<kVectors, false>,
         {.name = "block_per_row",
          .grid = {.x = static_cast<unsigned>(problem.rows)},
          .block = {.x = 32 * warps},
          .queue = queue},
         problem.in, problem.out, problem.columns);
}

}  // namespace

template <>
void block_per_row<kExecutor>(const Problem& problem, const Queue& queue) {
  if (problem.columns <= kMostWarps * 32 * kVector * kFewVectors) {
    launch_block_per_row<kFewVectors>(problem, queue);
  } else {
    launch_block_per_row<kManyVectors>(problem, queue);
  }
}

}  // namespace ultra::kernels::softmax

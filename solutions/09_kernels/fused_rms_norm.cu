// Rung 5 of rms_norm: the residual addition in the same kernel.
//
// Idea:   the block adds x and residual in its registers, writes the sum, and normalises what it
//         holds.
// Gain:   h is written once and never read: 20 bytes per element of rung 4 become 16, the two
//         arrays read and two written that the definition asks for; one launch instead of two.
// Limit:  memory: fewer bytes only with smaller numbers (bf16), or with more of the block's work
//         fused.

#include "kernels/ladders/rows/rms_norm/rms_norm.hpp"
#include "kernels/simt/pack.cuh"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::rms_norm {
namespace {

using namespace simt;

constexpr int kMostWarpsOfBlock = 32;

// The sum over the block's threads, in every thread.
__device__ __forceinline__ float sum_of_block(float value, float* warp_sums) {
  const unsigned lane = threadIdx.x % 32;
  value = warp_sum(value);
  if (lane == 0) {
    sts(&warp_sums[threadIdx.x / 32], value);
  }
  __syncthreads();  // else a warp reads sums that others have not written
  const float of_warp = lane < blockDim.x / 32 ? lds(&warp_sums[lane]) : 0.0F;
  return warp_sum(of_warp);
}

// One block per row. The rows begin at a multiple of width floats, and have a multiple of that.
template <int width>
__global__ void __launch_bounds__(1024)
    fused_kernel(const float* __restrict__ x, const float* __restrict__ residual,
                 const float* __restrict__ weight, float* __restrict__ h, float* __restrict__ y,
                 float* __restrict__ reciprocal_rms, int hidden, float epsilon) {
  using Floats = Pack<float, width>;
  constexpr int kPacks = kFloatsPerThread / width;
  __shared__ float warp_sums[kMostWarpsOfBlock];
  const std::size_t first = static_cast<std::size_t>(blockIdx.x) * hidden;
  const int step = blockDim.x * width;
  const int start = threadIdx.x * width;

  // 1. The sum, written and held; threads beyond the row hold zeros.
  Floats held[kPacks] = {};
  float squares = 0.0F;
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const int column = start + k * step;
    if (column < hidden) {
      held[k] = ldg(reinterpret_cast<const Floats*>(&x[first + column]));
      const Floats other = ldg(reinterpret_cast<const Floats*>(&residual[first + column]));
#pragma unroll
      for (int i = 0; i < width; ++i) {
        held[k].values[i] += other.values[i];
        squares += held[k].values[i] * held[k].values[i];
      }
      stg(reinterpret_cast<Floats*>(&h[first + column]), held[k]);
    }
  }

  // 2. The row's root mean square.
  const float mean = sum_of_block(squares, warp_sums) / static_cast<float>(hidden);
  const float reciprocal = rsqrtf(mean + epsilon);
  if (branch(threadIdx.x == 0)) {
    stg(&reciprocal_rms[blockIdx.x], reciprocal);
  }

  // 3. The norm of what is held.
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const int column = start + k * step;
    if (column < hidden) {
      const Floats scale = ldg(reinterpret_cast<const Floats*>(&weight[column]));
#pragma unroll
      for (int i = 0; i < width; ++i) {
        held[k].values[i] *= reciprocal * scale.values[i];
      }
      stg(reinterpret_cast<Floats*>(&y[first + column]), held[k]);
    }
  }
}

template <int width>
void launch_width(const Problem& problem, const Queue& queue) {
  launch(fused_kernel<width>,
         {.name = "fused",
          .grid = {.x = static_cast<unsigned>(problem.rows)},
          .block = {.x = 32 * ceil_div(problem.hidden, 32 * kFloatsPerThread)},
          .queue = queue},
         problem.x, problem.residual, problem.weight, problem.h, problem.y, problem.reciprocal_rms,
         problem.hidden, problem.epsilon);
}

}  // namespace

template <>
void fused<kExecutor>(const Problem& problem, const Queue& queue) {
  if (has_aligned_rows(problem.hidden)) {
    launch_width<4>(problem, queue);
  } else {
    launch_width<1>(problem, queue);
  }
}

}  // namespace ultra::kernels::rms_norm

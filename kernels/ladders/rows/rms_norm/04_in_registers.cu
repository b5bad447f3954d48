// Rung 4: a block per row, which holds the row in its registers.
//
// Idea:   16 floats a thread: a row of 4096 is 256 threads' worth. What was read for the sum of the
//         squares is still there when the sum is known.
// Gain:   the norm reads h once instead of twice: 24 bytes per element become 20. (In rung 3 the
//         second read may come out of a cache; whether it does depends on what else runs.)
// Limit:  h goes to memory and comes back between the addition and the norm. A row longer than
//         16,384 does not fit one block.

#include "kernels/ladders/rows/rms_norm/add.cuh"
#include "kernels/ladders/rows/rms_norm/rms_norm.hpp"
#include "kernels/simt/block_reduce.cuh"
#include "kernels/simt/pack.cuh"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::rms_norm {
namespace {

using namespace simt;

template <int width>
__global__ void __launch_bounds__(1024)
    in_registers_kernel(const float* __restrict__ h, const float* __restrict__ weight,
                        float* __restrict__ y, float* __restrict__ reciprocal_rms, int hidden,
                        float epsilon) {
  using Floats = Pack<float, width>;
  constexpr int kPacks = kFloatsPerThread / width;
  __shared__ float warp_sums[kMostWarps];
  const std::size_t first = static_cast<std::size_t>(blockIdx.x) * hidden;
  const int step = blockDim.x * width;
  const int start = threadIdx.x * width;

  Floats held[kPacks] = {};
  float squares = 0.0F;
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    if (start + k * step < hidden) {
      held[k] = ldg(reinterpret_cast<const Floats*>(&h[first + start + k * step]));
    }
#pragma unroll
    for (int i = 0; i < width; ++i) {
      squares += held[k].values[i] * held[k].values[i];
    }
  }
  const float reciprocal =
      rsqrtf(block_sum(squares, warp_sums) / static_cast<float>(hidden) + epsilon);
  if (branch(threadIdx.x == 0)) {
    stg(&reciprocal_rms[blockIdx.x], reciprocal);
  }
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    if (start + k * step < hidden) {
      const Floats scale = ldg(reinterpret_cast<const Floats*>(&weight[start + k * step]));
#pragma unroll
      for (int i = 0; i < width; ++i) {
        held[k].values[i] *= reciprocal * scale.values[i];
      }
      stg(reinterpret_cast<Floats*>(&y[first + start + k * step]), held[k]);
    }
  }
}

template <int width>
void launch_width(const Problem& problem, const Queue& queue) {
  const bool adds = problem.residual != nullptr;
  if (adds) add<width>(problem, queue);
  launch(in_registers_kernel<width>,
         {.name = "in_registers",
          .grid = {.x = static_cast<unsigned>(problem.rows)},
          .block = {.x = 32 * ceil_div(problem.hidden, 32 * kFloatsPerThread)},
          .queue = queue},
         adds ? problem.h : problem.x, problem.weight, problem.y, problem.reciprocal_rms,
         problem.hidden, problem.epsilon);
}

}  // namespace

template <>
void in_registers<kExecutor>(const Problem& problem, const Queue& queue) {
  if (has_aligned_rows(problem.hidden)) {
    launch_width<4>(problem, queue);
  } else {
    launch_width<1>(problem, queue);
  }
}

}  // namespace ultra::kernels::rms_norm

// Rung 2: a block per row, which holds the row in its registers; accesses of 16 bytes.
//
// Idea:   what was stored as h stays in registers as it was stored, in bf16: eight elements in the
//         place of four floats.
// Gain:   h is not read back: 8 bytes per element, the least; an eighth of the requests.
// Limit:  memory. A row longer than 16,384 does not fit one block.

#include "kernels/ladders/rows/rms_norm_bf16/rms_norm_bf16.hpp"
#include "kernels/simt/block_reduce.cuh"
#include "kernels/simt/pack.cuh"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::rms_norm_bf16 {
namespace {

using namespace simt;

template <int width, bool adds>
__global__ void __launch_bounds__(1024, 1)
    in_registers_kernel(const bf16* __restrict__ x, const bf16* __restrict__ residual,
                        const bf16* __restrict__ weight, bf16* __restrict__ h, bf16* __restrict__ y,
                        float* __restrict__ reciprocal_rms, int hidden, float epsilon) {
  using Elements = Pack<bf16, width>;
  constexpr int kPacks = kElementsPerThread / width;
  __shared__ float warp_sums[kMostWarps];
  const std::size_t first = static_cast<std::size_t>(blockIdx.x) * hidden;
  const int step = blockDim.x * width;
  const int start = threadIdx.x * width;

  // 1. All loads, before a store stands in their way.
  Elements held[kPacks];
  Elements others[kPacks];
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const int column = start + k * step;
    if (column < hidden) {
      held[k] = ldg(reinterpret_cast<const Elements*>(&x[first + column]));
      if constexpr (adds) {
        others[k] = ldg(reinterpret_cast<const Elements*>(&residual[first + column]));
      }
    }
  }

  // 2. The sum, stored and held as it was stored.
  float squares = 0.0F;
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const int column = start + k * step;
    if (column < hidden) {
#pragma unroll
      for (int i = 0; i < width; ++i) {
        if constexpr (adds) {
          held[k].values[i] = __float2bfloat16(static_cast<float>(held[k].values[i]) +
                                               static_cast<float>(others[k].values[i]));
        }
        const float rounded = static_cast<float>(held[k].values[i]);
        squares += rounded * rounded;
      }
      if constexpr (adds) stg(reinterpret_cast<Elements*>(&h[first + column]), held[k]);
    }
  }

  // 3. The norm of what is held.
  const float reciprocal =
      rsqrtf(block_sum(squares, warp_sums) / static_cast<float>(hidden) + epsilon);
  if (branch(threadIdx.x == 0)) {
    stg(&reciprocal_rms[blockIdx.x], reciprocal);
  }
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const int column = start + k * step;
    if (column < hidden) {
      const Elements scale = ldg(reinterpret_cast<const Elements*>(&weight[column]));
#pragma unroll
      for (int i = 0; i < width; ++i) {
        const float factor = reciprocal * static_cast<float>(scale.values[i]);
        held[k].values[i] = __float2bfloat16(static_cast<float>(held[k].values[i]) * factor);
      }
      stg(reinterpret_cast<Elements*>(&y[first + column]), held[k]);
    }
  }
}

template <int width>
void launch_width(const Problem& problem, const Queue& queue) {
  const bool adds = problem.residual != nullptr;
  launch(adds ? in_registers_kernel<width, true> : in_registers_kernel<width, false>,
         {.name = "in_registers",
          .grid = {.x = static_cast<unsigned>(problem.rows)},
          .block = {.x = 32 * ceil_div(problem.hidden, 32 * kElementsPerThread)},
          .queue = queue},
         problem.x, problem.residual, problem.weight, problem.h, problem.y, problem.reciprocal_rms,
         problem.hidden, problem.epsilon);
}

}  // namespace

template <>
void in_registers<kExecutor>(const Problem& problem, const Queue& queue) {
  if (problem.hidden % 8 == 0) {
    launch_width<8>(problem, queue);
  } else {
    launch_width<1>(problem, queue);
  }
}

}  // namespace ultra::kernels::rms_norm_bf16

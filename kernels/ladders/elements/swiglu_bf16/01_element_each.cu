// Rung 1: the fp32 ladder's fused kernel, with another type.
//
// Idea:   load, convert to fp32, compute, round once.
// Cost:   6 bytes per element, the least. A warp's request is 64 bytes, two sectors, where fp32 has
//         four: for the same bytes twice the instructions.
// Limit:  memory has fewer bytes under way than it could deliver: 4 of each thread.

#include "kernels/ladders/elements/swiglu/silu.cuh"
#include "kernels/ladders/elements/swiglu_bf16/swiglu_bf16.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::swiglu_bf16 {
namespace {

using namespace simt;

constexpr int kThreads = 256;

__global__ void element_each_kernel(const bf16* __restrict__ gate, const bf16* __restrict__ up,
                                    bf16* __restrict__ product, int count) {
  const int index = blockIdx.x * kThreads + threadIdx.x;
  if (branch(index < count)) {
    const float left = static_cast<float>(ldg(&gate[index]));
    const float right = static_cast<float>(ldg(&up[index]));
    stg(&product[index], __float2bfloat16(swiglu::silu(left) * right));
  }
}

}  // namespace

template <>
void element_each<kExecutor>(const Problem& problem, const Queue& queue) {
  const int count = problem.tokens * problem.ffn;
  launch(element_each_kernel,
         {.name = "element_each",
          .grid = {.x = ceil_div(count, kThreads)},
          .block = {.x = kThreads},
          .queue = queue},
         problem.gate, problem.up, problem.product, count);
}

}  // namespace ultra::kernels::swiglu_bf16

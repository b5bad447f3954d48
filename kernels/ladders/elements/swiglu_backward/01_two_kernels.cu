// Rung 1: a kernel for each gradient.
//
// Idea:   the definition, once for d_up and once for d_gate.
// Cost:   12 bytes moved per element for d_up, 16 for d_gate: 28, where 20 are asked for; and two
//         exponentials.
// Limit:  memory: d_product and gate are read twice.

#include "kernels/ladders/elements/swiglu_backward/gradients.cuh"
#include "kernels/ladders/elements/swiglu_backward/swiglu_backward.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::swiglu_backward {
namespace {

using namespace simt;

constexpr int kThreads = 256;

__global__ void d_up_kernel(const float* __restrict__ d_product, const float* __restrict__ gate,
                            float* __restrict__ d_up, int count) {
  const int index = blockIdx.x * kThreads + threadIdx.x;
  if (branch(index < count)) {
    const float gradient = ldg(&d_product[index]);
    const float x = ldg(&gate[index]);
    stg(&d_up[index], d_up_of(gradient, x, sigmoid(x)));
  }
}

__global__ void d_gate_kernel(const float* __restrict__ d_product, const float* __restrict__ gate,
                              const float* __restrict__ up, float* __restrict__ d_gate, int count) {
  const int index = blockIdx.x * kThreads + threadIdx.x;
  if (branch(index < count)) {
    const float gradient = ldg(&d_product[index]);
    const float x = ldg(&gate[index]);
    const float factor = ldg(&up[index]);
    stg(&d_gate[index], d_gate_of(gradient, x, factor, sigmoid(x)));
  }
}

}  // namespace

template <>
void two_kernels<kExecutor>(const Problem& problem, const Queue& queue) {
  const int count = problem.tokens * problem.ffn;
  const Extents grid{.x = ceil_div(count, kThreads)};
  launch(d_up_kernel, {.name = "d_up", .grid = grid, .block = {.x = kThreads}, .queue = queue},
         problem.d_product, problem.gate, problem.d_up, count);
  launch(d_gate_kernel, {.name = "d_gate", .grid = grid, .block = {.x = kThreads}, .queue = queue},
         problem.d_product, problem.gate, problem.up, problem.d_gate, count);
}

}  // namespace ultra::kernels::swiglu_backward

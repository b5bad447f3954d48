// Rung 1: the update in fp32, then a kernel that rounds.
//
// Idea:   the optimizer is one for fp32, to which the model's type is a matter of copying.
// Cost:   32 bytes per parameter, where 28 are the least: the master copy is read again.
// Limit:  memory, and two launches.

#include "kernels/ladders/elements/adamw/update.cuh"
#include "kernels/ladders/elements/adamw_bf16/adamw_bf16.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::adamw_bf16 {
namespace {

using namespace simt;

constexpr int kThreads = 256;

__global__ void update_kernel(const bf16* __restrict__ gradient, float* __restrict__ master,
                              float* __restrict__ first_moment, float* __restrict__ second_moment,
                              int n, adamw::Constants constants) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (branch(i < n)) {
    const float g = static_cast<float>(ldg(&gradient[i]));
    float value = ldg(&master[i]);
    float first = ldg(&first_moment[i]);
    float second = ldg(&second_moment[i]);
    adamw::update_element(value, g, first, second, constants);
    stg(&master[i], value);
    stg(&first_moment[i], first);
    stg(&second_moment[i], second);
  }
}

__global__ void round_kernel(const float* __restrict__ master, bf16* __restrict__ parameter,
                             int n) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (branch(i < n)) {
    const float value = ldg(&master[i]);
    stg(&parameter[i], __float2bfloat16(value));
  }
}

}  // namespace

template <>
void two_kernels<kExecutor>(const Problem& problem, const Queue& queue) {
  const Extents grid{.x = ceil_div(problem.n, kThreads)};
  launch(update_kernel, {.name = "update", .grid = grid, .block = {.x = kThreads}, .queue = queue},
         problem.gradient, problem.master, problem.first_moment, problem.second_moment, problem.n,
         problem.constants);
  launch(round_kernel, {.name = "round", .grid = grid, .block = {.x = kThreads}, .queue = queue},
         problem.master, problem.parameter, problem.n);
}

}  // namespace ultra::kernels::adamw_bf16

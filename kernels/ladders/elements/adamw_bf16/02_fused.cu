// Rung 2: one kernel, four parameters per thread.
//
// Idea:   the master copy is rounded while it is in a register. A thread takes four parameters: 16
//         bytes of each fp32 array, 8 of each in bf16. Eight, which 16 bytes of bf16 hold, would be
//         two accesses of fp32 whose lanes stand 32 bytes apart: each would touch every sector and
//         use half.
// Gain:   28 bytes per parameter, the least: 14 read, 14 written. 56 bytes of loads under way per
//         thread.
// Limit:  memory. Fewer bytes only with smaller moments (8-bit optimizers), or with fewer replicas
//         of all of this (ZeRO).

#include "kernels/ladders/elements/adamw/update.cuh"
#include "kernels/ladders/elements/adamw_bf16/adamw_bf16.hpp"
#include "kernels/simt/pack.cuh"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::adamw_bf16 {
namespace {

using namespace simt;

constexpr int kThreads = 256;
constexpr int kWidth = 4;

using Elements = Pack<bf16, kWidth>;
using Floats = Pack<float, kWidth>;

// All loads come before the first store: the arrays are changed in place, and the compiler does not
// move a load before a store that may be to the same place.
__device__ __forceinline__ void update_four(const Problem& problem, int i) {
  auto* const master = reinterpret_cast<Floats*>(&problem.master[i]);
  auto* const first_moment = reinterpret_cast<Floats*>(&problem.first_moment[i]);
  auto* const second_moment = reinterpret_cast<Floats*>(&problem.second_moment[i]);
  const Elements gradients = ldg(reinterpret_cast<const Elements*>(&problem.gradient[i]));
  Floats values = ldg(master);
  Floats first = ldg(first_moment);
  Floats second = ldg(second_moment);
  Elements parameters;
#pragma unroll
  for (int k = 0; k < kWidth; ++k) {
    adamw::update_element(values.values[k], static_cast<float>(gradients.values[k]),
                          first.values[k], second.values[k], problem.constants);
    parameters.values[k] = __float2bfloat16(values.values[k]);
  }
  stg(master, values);
  stg(first_moment, first);
  stg(second_moment, second);
  stg(reinterpret_cast<Elements*>(&problem.parameter[i]), parameters);
}

__device__ __forceinline__ void update_one(const Problem& problem, int i) {
  const float gradient = static_cast<float>(ldg(&problem.gradient[i]));
  float value = ldg(&problem.master[i]);
  float first = ldg(&problem.first_moment[i]);
  float second = ldg(&problem.second_moment[i]);
  adamw::update_element(value, gradient, first, second, problem.constants);
  stg(&problem.master[i], value);
  stg(&problem.first_moment[i], first);
  stg(&problem.second_moment[i], second);
  stg(&problem.parameter[i], __float2bfloat16(value));
}

__global__ void __launch_bounds__(kThreads) fused_kernel(const Problem problem) {
  const int packs = problem.n / kWidth;
  const int index = blockIdx.x * kThreads + threadIdx.x;
  if (branch(index < packs)) {
    update_four(problem, index * kWidth);
  } else if (const int rest = packs * kWidth + (index - packs); rest < problem.n) {
    update_one(problem, rest);
  }
}

}  // namespace

template <>
void fused<kExecutor>(const Problem& problem, const Queue& queue) {
  launch(fused_kernel,
         {.name = "fused",
          .grid = {.x = ceil_div(problem.n / kWidth + problem.n % kWidth, kThreads)},
          .block = {.x = kThreads},
          .queue = queue},
         problem);
}

}  // namespace ultra::kernels::adamw_bf16

// Rung 1: the update as a chain of elementwise operations.
//
// Idea:   one kernel per operation, as a tensor library runs the formula. Each reads its operands
//         from memory and writes its result back, where the next one reads it.
// Cost:   bytes per parameter: moments 12 + 12, denominator 8, step 12, decay 8, subtraction 12:
//         64. The least is 28. Six launches per tensor.
// Limit:  the memory, at 2.3 times the traffic that is needed.

#include <cmath>

#include "kernels/ladders/elements/adamw/adamw.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::adamw {
namespace {

using namespace simt;

constexpr int kThreads = 256;

__device__ __forceinline__ int element_of_thread() {
  return static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
}

// m = beta1 m + keep1 g
__global__ void first_moment_kernel(float* m, const float* gradient, Constants c, int n) {
  const int i = element_of_thread();
  if (branch(i < n)) {
    const float g = ldg(&gradient[i]) * c.gradient_scale;
    stg(&m[i], c.beta1 * ldg(&m[i]) + c.keep1 * g);
  }
}

// v = beta2 v + keep2 g^2
__global__ void second_moment_kernel(float* v, const float* gradient, Constants c, int n) {
  const int i = element_of_thread();
  if (branch(i < n)) {
    const float g = ldg(&gradient[i]) * c.gradient_scale;
    stg(&v[i], c.beta2 * ldg(&v[i]) + c.keep2 * g * g);
  }
}

// denominator = root_scale sqrt(v) + epsilon
__global__ void denominator_kernel(float* denominator, const float* v, Constants c, int n) {
  const int i = element_of_thread();
  if (branch(i < n)) {
    stg(&denominator[i], sqrtf(ldg(&v[i])) * c.root_scale + c.epsilon);
  }
}

// step = step_size m / step
__global__ void step_kernel(float* step, const float* m, Constants c, int n) {
  const int i = element_of_thread();
  if (branch(i < n)) {
    const float numerator = c.step_size * ldg(&m[i]);
    stg(&step[i], numerator / ldg(&step[i]));
  }
}

// value = decay value
__global__ void decay_kernel(float* value, Constants c, int n) {
  const int i = element_of_thread();
  if (branch(i < n)) {
    stg(&value[i], c.decay * ldg(&value[i]));
  }
}

// value = value - step
__global__ void subtract_kernel(float* value, const float* step, int n) {
  const int i = element_of_thread();
  if (branch(i < n)) {
    const float before = ldg(&value[i]);
    stg(&value[i], before - ldg(&step[i]));
  }
}

}  // namespace

template <>
void unfused<kExecutor>(const Problem& problem, const Queue& queue) {
  const Constants& c = problem.constants;
  for (int index = 0; index < problem.count; ++index) {
    const Tensor& tensor = problem.tensors[index];
    const auto config = [&](const char* name) {
      return Config{.name = name,
                    .grid = {.x = ceil_div(tensor.n, kThreads)},
                    .block = {.x = kThreads},
                    .queue = queue};
    };
    launch(first_moment_kernel, config("first_moment"), tensor.first_moment, tensor.gradient, c,
           tensor.n);
    launch(second_moment_kernel, config("second_moment"), tensor.second_moment, tensor.gradient, c,
           tensor.n);
    launch(denominator_kernel, config("denominator"), problem.scratch, tensor.second_moment, c,
           tensor.n);
    launch(step_kernel, config("step"), problem.scratch, tensor.first_moment, c, tensor.n);
    launch(decay_kernel, config("decay"), tensor.value, c, tensor.n);
    launch(subtract_kernel, config("subtract"), tensor.value, problem.scratch, tensor.n);
  }
}

}  // namespace ultra::kernels::adamw

// Rung 2: one kernel.
//
// Idea:   what one operation hands the next stays in a register. Each array is read once and
//         written once.
// Gain:   64 -> 28 bytes per parameter, the least; launches per tensor 6 -> 1.
// Limit:  4 bytes per lane and access: seven memory instructions per parameter.

#include "kernels/ladders/elements/adamw/adamw.hpp"
#include "kernels/ladders/elements/adamw/update.cuh"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::adamw {
namespace {

using namespace simt;

constexpr int kThreads = 256;

__global__ void fused_kernel(Tensor tensor, Constants constants) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (branch(i < tensor.n)) {
    update_single(tensor, i, constants);
  }
}

}  // namespace

template <>
void fused<kExecutor>(const Problem& problem, const Queue& queue) {
  for (int index = 0; index < problem.count; ++index) {
    const Tensor& tensor = problem.tensors[index];
    launch(fused_kernel,
           {.name = "fused",
            .grid = {.x = ceil_div(tensor.n, kThreads)},
            .block = {.x = kThreads},
            .queue = queue},
           tensor, problem.constants);
  }
}

}  // namespace ultra::kernels::adamw

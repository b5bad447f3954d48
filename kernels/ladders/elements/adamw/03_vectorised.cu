// Rung 3: four parameters per thread.
//
// Idea:   a thread loads, updates and stores 16 bytes of each array. The last thread of a tensor
//         takes what is left of a length that is no multiple of 4.
// Gain:   a quarter of the memory instructions; 64 bytes of loads per thread are under way.
// Limit:  the memory, for large tensors. A model has many small ones (norms, biases) whose kernels
//         end before the GPU is full, and whose launches take longer than their work.

#include "kernels/ladders/elements/adamw/adamw.hpp"
#include "kernels/ladders/elements/adamw/update.cuh"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::adamw {
namespace {

using namespace simt;

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) vectorised_kernel(Tensor tensor, Constants constants) {
  const int i = kVector * (blockIdx.x * kThreads + threadIdx.x);
  if (branch(i < tensor.n)) {
    update_vector(tensor, i, constants);
  }
}

}  // namespace

template <>
void vectorised<kExecutor>(const Problem& problem, const Queue& queue) {
  for (int index = 0; index < problem.count; ++index) {
    const Tensor& tensor = problem.tensors[index];
    launch(vectorised_kernel,
           {.name = "vectorised",
            .grid = {.x = ceil_div(tensor.n, std::size_t{kThreads} * kVector)},
            .block = {.x = kThreads},
            .queue = queue},
           tensor, problem.constants);
  }
}

}  // namespace ultra::kernels::adamw

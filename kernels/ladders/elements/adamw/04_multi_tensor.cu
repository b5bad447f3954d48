// Rung 4: one launch for many tensors.
//
// Idea:   the kernel's parameters are a list of tensors, and of the block with which each begins. A
//         block finds its tensor by bisection, and updates one part of it. The list travels with
//         the launch, up to 4 KiB, so that no table has to be copied to the GPU before.
// Gain:   launches per step: one for 64 tensors instead of one for each. Tensors share the GPU, and
//         the last blocks of one run beside the first of the next.
// Limit:  the memory itself.

#include "kernels/ladders/elements/adamw/adamw.hpp"
#include "kernels/ladders/elements/adamw/update.cuh"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::adamw {
namespace {

using namespace simt;

constexpr int kThreads = 256;
constexpr int kVectorsOfThread = 4;
constexpr int kElementsOfBlock = kThreads * kVector * kVectorsOfThread;
constexpr int kMostTensors = 64;  // of a launch

struct TensorList {
  int count;
  int first_block[kMostTensors];
  Tensor tensors[kMostTensors];
};
static_assert(sizeof(TensorList) + sizeof(Constants) <= 4096, "what a launch can carry");

// The tensor whose blocks include `block`: the last that does not begin behind it.
__device__ __forceinline__ int tensor_of(const TensorList& list, int block) {
  int low = 0;
  int high = list.count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (list.first_block[middle] <= block) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

__global__ void __launch_bounds__(kThreads)
    multi_tensor_kernel(const TensorList list, const Constants constants) {
  const int block = blockIdx.x;
  const int index = tensor_of(list, block);
  const Tensor tensor = list.tensors[index];
  const int first = (block - list.first_block[index]) * kElementsOfBlock + kVector * threadIdx.x;
  for (int v = 0; v < kVectorsOfThread; ++v) {
    const int i = first + v * kVector * kThreads;
    if (branch(i < tensor.n)) {
      update_vector(tensor, i, constants);
    }
  }
}

}  // namespace

template <>
void multi_tensor<kExecutor>(const Problem& problem, const Queue& queue) {
  for (int done = 0; done < problem.count; done += kMostTensors) {
    const int left = problem.count - done;
    TensorList list{};
    list.count = left < kMostTensors ? left : kMostTensors;
    unsigned blocks = 0;
    for (int index = 0; index < list.count; ++index) {
      list.tensors[index] = problem.tensors[done + index];
      list.first_block[index] = static_cast<int>(blocks);
      blocks += ceil_div(list.tensors[index].n, kElementsOfBlock);
    }
    launch(
        multi_tensor_kernel,
        {.name = "multi_tensor", .grid = {.x = blocks}, .block = {.x = kThreads}, .queue = queue},
        list, problem.constants);
  }
}

}  // namespace ultra::kernels::adamw

// Rung 3: the next kernel begins before this one has ended.
//
// Idea:   weights are there before the step begins; only x comes from the kernel before. So a kernel
//         may start early, load its row of weights, and wait only then (programmatic dependent
//         launch). Blocks of both kernels share the multiprocessors meanwhile.
// Gain:   a kernel's start and its first loads lie beside the end of the one before.
// Limit:  the host still queues every kernel. Registers and shared memory must have room for blocks
//         of both.

#include "kernels/ladders/basics/small_launches/layer.cuh"

namespace ultra::kernels::small_launches {

template <>
void programmatic<kExecutor>(const Problem& problem, const Queue& queue) {
  launch_layers<Start::kBesideTheKernelBefore>(problem, queue, "early layer");
}

}  // namespace ultra::kernels::small_launches

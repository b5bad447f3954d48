// Rung 1: a launch for each product.
//
// Idea:   what every program does first.
// Cost:   the host queues a kernel in some microseconds, and the GPU begins it when the one before
//         has ended: its last block, its writes, then the next kernel's first load.
// Limit:  a product of 1024 x 1024 reads 4 MB, which an H100's memory delivers in 1.3 microseconds.
//         If the host needs longer to queue it, the GPU waits for the host.

#include "kernels/ladders/basics/small_launches/layer.cuh"

namespace ultra::kernels::small_launches {

template <>
void separate<kExecutor>(const Problem& problem, const Queue& queue) {
  launch_layers<Start::kBehindTheKernelBefore>(problem, queue, "layer");
}

}  // namespace ultra::kernels::small_launches

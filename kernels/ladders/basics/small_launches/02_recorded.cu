// Rung 2: one graph.
//
// Idea:   the launches are the same in each step of a training or a decoding: record them once, and
//         queue the recording. The driver has then prepared all of them, and knows which waits for
//         which.
// Gain:   one call of the host for the whole chain.
// Limit:  arguments are those of the recording: sizes, addresses. What changes from step to step
//         must change in memory. And between two kernels the GPU still drains and fills.

#include "kernels/ladders/basics/small_launches/layer.cuh"

namespace ultra::kernels::small_launches {

template <>
void recorded<kExecutor>(const Problem& problem, const Queue& queue) {
  problem.recording->replay(queue, [problem](const Queue& recorded_queue) {
    launch_layers<Start::kBehindTheKernelBefore>(problem, recorded_queue, "layer");
  });
}

}  // namespace ultra::kernels::small_launches

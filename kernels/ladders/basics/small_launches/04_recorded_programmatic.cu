// Rung 4: both.
//
// Idea:   a recording keeps how each kernel waits for the one before: the edges of the graph are
//         programmatic, too.
// Gain:   one call of the host, and no gap between kernels but the wait itself.
// Limit:  bytes: every weight is read once. Less only with fewer bits, or with several tokens for
//         each reading, which is what batching is.

#include "kernels/ladders/basics/small_launches/layer.cuh"

namespace ultra::kernels::small_launches {

template <>
void recorded_programmatic<kExecutor>(const Problem& problem, const Queue& queue) {
  problem.recording->replay(queue, [problem](const Queue& recorded_queue) {
    launch_layers<Start::kBesideTheKernelBefore>(problem, recorded_queue, "early layer");
  });
}

}  // namespace ultra::kernels::small_launches

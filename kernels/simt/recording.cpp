#include "kernels/simt/recording.hpp"

#include "kernels/simt/gpu/graph.hpp"

namespace ultra::simt {

Recording::Recording(Executor executor) : executor_(executor) {}

Recording::~Recording() = default;

void Recording::replay(const Queue& queue, const Launches& launches) {
  if (executor_ == Executor::kGpu) {
    if (graph_ == nullptr) {
      graph_ = std::make_unique<gpu::Graph>(launches);
    }
    graph_->launch(queue.stream);
    return;
  }
  if (!recorded_) {
    recorded_ = launches;
  }
  recorded_(queue);
}

}  // namespace ultra::simt

// Graphs of a build without CUDA: there are none.

#include "kernels/simt/error.hpp"
#include "kernels/simt/gpu/graph.hpp"

namespace ultra::simt::gpu {

Graph::Graph(const std::function<void(const Queue&)>& /*launches*/) {
  throw SimtError(Fault::kCuda,
                  "a CUDA graph: this build has no CUDA, expected nvcc at configuration. "
                  "Hint: replay the launches in the emulator, or install the CUDA toolkit");
}

Graph::~Graph() = default;
void Graph::launch(Stream /*stream*/) const {}

}  // namespace ultra::simt::gpu

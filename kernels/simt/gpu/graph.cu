// Launches are recorded from a stream of their own: the default stream cannot be.

#include "kernels/simt/gpu/graph.hpp"

#include <cuda_runtime.h>

#include "kernels/simt/gpu/check.cuh"

namespace ultra::simt::gpu {
namespace {

struct RecordedStream {
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;

  RecordedStream() {
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  }
  ~RecordedStream() {
    if (graph != nullptr) {
      static_cast<void>(cudaGraphDestroy(graph));
    }
    static_cast<void>(cudaStreamDestroy(stream));
  }
  RecordedStream(const RecordedStream&) = delete;
  RecordedStream& operator=(const RecordedStream&) = delete;
};

}  // namespace

Graph::Graph(const std::function<void(const Queue&)>& launches) {
  RecordedStream recorded;
  check(cudaStreamBeginCapture(recorded.stream, cudaStreamCaptureModeThreadLocal),
        "cudaStreamBeginCapture");
  try {
    launches({.stream = {.handle = recorded.stream}});
  } catch (...) {
    static_cast<void>(cudaStreamEndCapture(recorded.stream, &recorded.graph));
    throw;
  }
  check(cudaStreamEndCapture(recorded.stream, &recorded.graph), "cudaStreamEndCapture");
  cudaGraphExec_t executable = nullptr;
  check(cudaGraphInstantiate(&executable, recorded.graph, 0), "cudaGraphInstantiate");
  executable_ = executable;
}

Graph::~Graph() {
  static_cast<void>(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(executable_)));
}

void Graph::launch(Stream stream) const {
  check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(executable_),
                        static_cast<cudaStream_t>(stream.handle)),
        "cudaGraphLaunch");
}

}  // namespace ultra::simt::gpu

// The GPU's own clock: events of the CUDA run time.

#include "kernels/simt/gpu/stopwatch.hpp"

#include <cuda_runtime.h>

#include "kernels/simt/gpu/check.cuh"

namespace ultra::simt::gpu {
namespace {

// More than the second-level cache of any GPU so far: 50 MiB on an H100.
constexpr std::size_t kFlushBytes = std::size_t{256} << 20;
constexpr unsigned kFlushBlocks = 1024;
constexpr unsigned kFlushThreads = 256;

// Reads all of the scratch memory. What was written instead would leave lines in the cache that
// memory still has to take while the next kernel is timed.
__global__ void flush_kernel(uint4* scratch) {
  const std::size_t count = kFlushBytes / sizeof(uint4);
  for (std::size_t i = std::size_t{blockIdx.x} * kFlushThreads + threadIdx.x; i < count;
       i += std::size_t{kFlushBlocks} * kFlushThreads) {
    const uint4 unit = scratch[i];
    if (unit.x == 1) {  // never: but the compiler must load to know
      scratch[i].x = 0;
    }
  }
}

}  // namespace

struct Stopwatch::Events {
  cudaEvent_t first = nullptr;
  cudaEvent_t second = nullptr;
  void* scratch = nullptr;

  ~Events() {
    static_cast<void>(cudaEventDestroy(first));
    static_cast<void>(cudaEventDestroy(second));
    static_cast<void>(cudaFree(scratch));
  }
};

Stopwatch::Stopwatch() : events_(std::make_unique<Events>()) {
  check(cudaEventCreate(&events_->first), "cudaEventCreate");
  check(cudaEventCreate(&events_->second), "cudaEventCreate");
  check(cudaMalloc(&events_->scratch, kFlushBytes), "cudaMalloc of the cache flush");
  check(cudaMemset(events_->scratch, 0, kFlushBytes), "cudaMemset of the cache flush");
}

Stopwatch::~Stopwatch() = default;

void Stopwatch::flush_cache() {
  flush_kernel<<<kFlushBlocks, kFlushThreads>>>(static_cast<uint4*>(events_->scratch));
  check(cudaGetLastError(), "flush_kernel");
}

void Stopwatch::start() { check(cudaEventRecord(events_->first), "cudaEventRecord"); }

double Stopwatch::stop() {
  check(cudaEventRecord(events_->second), "cudaEventRecord");
  check(cudaEventSynchronize(events_->second), "a kernel before cudaEventSynchronize");
  float milliseconds = 0.0F;
  check(cudaEventElapsedTime(&milliseconds, events_->first, events_->second),
        "cudaEventElapsedTime");
  return double{milliseconds} * 1e-3;
}

}  // namespace ultra::simt::gpu

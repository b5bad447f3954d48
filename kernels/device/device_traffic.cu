// Reads and writes of the GPU's memory, and nothing else.

#include "kernels/device/device_traffic.hpp"

#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/simt/gpu/check.cuh"

namespace ultra::kernels {
namespace {

using simt::gpu::check;

constexpr int kThreads = 512;
constexpr int kUnits = 4;  // of 16 bytes, that a thread has under way at once
constexpr std::size_t kTileBytes = std::size_t{kThreads} * kUnits * sizeof(uint4);
constexpr unsigned kBlocksOfMultiprocessor = 4;

// Both of `tiles` steps take part: step t reads a tile where the share of tiles to read up to t + 1
// is one more than up to t, and writes alike.
__global__ void __launch_bounds__(kThreads, kBlocksOfMultiprocessor)
    traffic_kernel(const uint4* __restrict__ from, uint4* __restrict__ to, std::size_t read_tiles,
                   std::size_t written_tiles) {
  const std::size_t steps = max(read_tiles, written_tiles);
  for (std::size_t step = blockIdx.x; step < steps; step += gridDim.x) {
    const std::size_t source = step * read_tiles / steps;
    const std::size_t target = step * written_tiles / steps;
    uint4 units[kUnits] = {};
    if ((step + 1) * read_tiles / steps > source) {
#pragma unroll
      for (int i = 0; i < kUnits; ++i) {
        units[i] = from[(source * kUnits + i) * kThreads + threadIdx.x];
      }
    }
    if ((step + 1) * written_tiles / steps > target) {
#pragma unroll
      for (int i = 0; i < kUnits; ++i) {
        to[(target * kUnits + i) * kThreads + threadIdx.x] = units[i];
      }
      continue;
    }
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      if (units[i].x == 0xffffffffU) {  // never: but the compiler must load to know
        to[threadIdx.x] = units[i];
      }
    }
  }
}

std::size_t tiles_of(std::size_t bytes) { return (bytes + kTileBytes - 1) / kTileBytes; }

void* allocate(std::size_t tiles, const char* what) {
  void* memory = nullptr;
  const std::size_t bytes = std::max<std::size_t>(tiles, 1) * kTileBytes;
  check(cudaMalloc(&memory, bytes), what);
  check(cudaMemset(memory, 1, bytes), what);
  return memory;
}

unsigned resident_blocks() {
  int device = 0;
  int multiprocessors = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
        "cudaDeviceGetAttribute");
  return static_cast<unsigned>(multiprocessors) * kBlocksOfMultiprocessor;
}

}  // namespace

struct DeviceTraffic::Memory {
  std::size_t read_tiles;
  std::size_t written_tiles;
  unsigned blocks = 0;
  void* from = nullptr;
  void* to = nullptr;

  ~Memory() {
    static_cast<void>(cudaFree(from));
    static_cast<void>(cudaFree(to));
  }
};

DeviceTraffic::DeviceTraffic(std::size_t read_bytes, std::size_t written_bytes)
    : memory_(std::make_unique<Memory>(
          Memory{.read_tiles = tiles_of(read_bytes), .written_tiles = tiles_of(written_bytes)})) {
  memory_->from = allocate(memory_->read_tiles, "the memory to read");
  memory_->to = allocate(memory_->written_tiles, "the memory to write");
  memory_->blocks = resident_blocks();
}

DeviceTraffic::~DeviceTraffic() = default;

void DeviceTraffic::launch() {
  const Memory& m = *memory_;
  traffic_kernel<<<m.blocks, kThreads>>>(static_cast<const uint4*>(m.from),
                                         static_cast<uint4*>(m.to), m.read_tiles, m.written_tiles);
  check(cudaGetLastError(), "traffic_kernel");
}

}  // namespace ultra::kernels

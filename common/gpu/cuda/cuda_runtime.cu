// A GPU as the CUDA run time gives it, and why there is none, in words.

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <mutex>
#include <new>
#include <set>
#include <string>

#include "common/base/errors.hpp"
#include "common/gpu/cuda/cuda_streams.cuh"
#include "common/gpu/place_on_node.hpp"
#include "common/gpu/runtime.hpp"
#include "kernels/table/table.hpp"

namespace ultra::gpu {
namespace {

__global__ void probe_kernel() {}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// Why CUDA finds no device; the run time's own words do not tell these cases apart.
[[noreturn]] void refuse_without_device(cudaError_t status) {
  static_cast<void>(cudaGetLastError());  // or it would surface in a later call
  int driver = 0;
  int toolkit = 0;
  static_cast<void>(cudaDriverGetVersion(&driver));
  static_cast<void>(cudaRuntimeGetVersion(&toolkit));
  const std::string instead = " Or use --device cpu or emulated.";
  if (driver == 0) {
    throw ConfigError(
        "device cuda: this machine has no NVIDIA driver. Install one, or in a "
        "container start it with its GPUs." +
        instead);
  }
  if (status == cudaErrorInsufficientDriver) {
    throw ConfigError("device cuda: the NVIDIA driver is too old: it knows CUDA " +
                      version_text(driver) + ", this build is of CUDA " + version_text(toolkit) +
                      ". Update the driver, or build with an older toolkit." + instead);
  }
  if (status == cudaErrorNoDevice || status == cudaSuccess) {
    throw ConfigError(
        "device cuda: the NVIDIA driver shows no GPU to this process. Look at "
        "nvidia-smi and at CUDA_VISIBLE_DEVICES." +
        instead);
  }
  throw ConfigError(std::string("device cuda: the driver answers: ") + cudaGetErrorString(status) +
                    ". Look at nvidia-smi." + instead);
}

/// Among processes NCCL's kernels wait for those of others, and nothing that these need may wait behind
/// them: a kernel's first launch waits for all that runs on the GPU, so all are loaded before; and
/// streams that share one of the queues to the GPU wait for each other, so there are as many of these as
/// there can be. What the user has set stays.
/// Source: CUDA C++ Programming Guide, "Lazy Loading" and "CUDA Environment Variables".
void let_processes_wait_on_the_gpu() {
  constexpr int kNobody = -1;
  constexpr int kKeep = 0;
  if (place_on_node(kNobody) == kNobody) return;
  setenv("CUDA_MODULE_LOADING", "EAGER", kKeep);
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", kKeep);
}

int choose_device(int rank) {
  let_processes_wait_on_the_gpu();
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) refuse_without_device(status);
  return place_on_node(rank) % count;
}

DeviceProperties describe(int device) {
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  char address[32] = {};
  check_cuda(cudaDeviceGetPCIBusId(address, sizeof address, device), "cudaDeviceGetPCIBusId");
  return {.name = properties.name,
          .id = address,
          .total_bytes = properties.totalGlobalMem,
          .compute_capability_major = properties.major,
          .compute_capability_minor = properties.minor,
          .ordinal = device};
}

/// Kernels are compiled for some architectures: CUDA says whether this GPU's is among them.
void refuse_foreign_architecture(const DeviceProperties& properties) {
  cudaFuncAttributes attributes{};
  const cudaError_t status = cudaFuncGetAttributes(&attributes, probe_kernel);
  if (status == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  if (status != cudaErrorNoKernelImageForDevice && status != cudaErrorInvalidDeviceFunction) {
    check_cuda(status, "cudaFuncGetAttributes");
  }
  const std::string capability = std::to_string(properties.compute_capability_major) + "." +
                                 std::to_string(properties.compute_capability_minor);
  const bool too_old =
      properties.compute_capability_major * 10 + properties.compute_capability_minor < 75;
  throw ConfigError("device cuda: " + properties.name + " has compute capability " + capability +
                    (too_old ? ", which is too old: the kernels need 7.5 or later."
                             : ", for which this build has no kernels. Configure with "
                               "-DCMAKE_CUDA_ARCHITECTURES=native.") +
                    " Or use --device cpu or emulated.");
}

[[noreturn]] void refuse_without_way(int from, int to) {
  throw ConfigError("device cuda: GPU " + std::to_string(from) +
                    " cannot reach the memory of GPU " + std::to_string(to) +
                    ", which ranks of one process need. Start the ranks as processes (mpirun), or "
                    "show this process one GPU: CUDA_VISIBLE_DEVICES=0.");
}

/// Ranks of one process on several GPUs read each other's memory, by copies and by kernels. Only GPUs
/// that the process uses: each costs memory on the other one.
void open_ways_to_others(int device) {
  static std::mutex mutex;
  static std::set<int> used;
  const std::lock_guard lock(mutex);
  if (used.contains(device)) return;
  const auto open = [](int from, int to) {
    int can = 0;
    check_cuda(cudaDeviceCanAccessPeer(&can, from, to), "cudaDeviceCanAccessPeer");
    if (can == 0) refuse_without_way(from, to);
    check_cuda(cudaSetDevice(from), "cudaSetDevice");
    const cudaError_t status = cudaDeviceEnablePeerAccess(to, 0);
    if (status == cudaErrorPeerAccessAlreadyEnabled) {  // by NCCL
      static_cast<void>(cudaGetLastError());
      return;
    }
    check_cuda(status, "cudaDeviceEnablePeerAccess");
  };
  for (const int other : used) {
    open(device, other);
    open(other, device);
  }
  used.insert(device);
  check_cuda(cudaSetDevice(device), "cudaSetDevice");
}

class CudaRuntime : public Runtime {
 public:
  explicit CudaRuntime(int device) : properties_(describe(device)) {
    make_current();
    refuse_foreign_architecture(properties_);
    open_ways_to_others(device);
  }

  const DeviceProperties& properties() const override { return properties_; }
  const kernels::Table& kernels() const override { return kernels::table<simt::Executor::kGpu>(); }

  void* allocate(std::size_t bytes) override {
    make_current();
    void* block = nullptr;
    return checked(cudaMalloc(&block, bytes), block, "cudaMalloc");
  }

  void release(void* block, std::size_t) noexcept override {
    static_cast<void>(cudaSetDevice(properties_.ordinal));
    static_cast<void>(cudaFree(block));
  }

  void* allocate_pinned(std::size_t bytes) override {
    make_current();
    void* block = nullptr;
    return checked(cudaHostAlloc(&block, bytes, cudaHostAllocPortable), block, "cudaHostAlloc");
  }

  void release_pinned(void* block, std::size_t) noexcept override {
    static_cast<void>(cudaSetDevice(properties_.ordinal));
    static_cast<void>(cudaFreeHost(block));
  }

  std::size_t free_bytes() const override {
    make_current();
    std::size_t free = 0;
    std::size_t total = 0;
    check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    return free;
  }

  bool host_can_read() const override { return false; }

  std::unique_ptr<Streams> make_streams(int rank) override {
    return std::make_unique<CudaStreams>(properties_.ordinal, rank);
  }

 private:
  void make_current() const { check_cuda(cudaSetDevice(properties_.ordinal), "cudaSetDevice"); }

  /// `block` is a reference: it is read after the call has set it.
  static void* checked(cudaError_t status, void*& block, const char* call) {
    if (status == cudaErrorMemoryAllocation) {
      static_cast<void>(cudaGetLastError());
      throw std::bad_alloc();
    }
    check_cuda(status, call);
    return block;
  }

  DeviceProperties properties_;
};

}  // namespace

std::shared_ptr<Runtime> make_cuda_runtime(int rank) {
  return std::make_shared<CudaRuntime>(choose_device(rank));
}

}  // namespace ultra::gpu

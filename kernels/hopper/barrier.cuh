#pragma once
/// @file
/// Barriers in shared memory that count arrivals of threads and bytes of TMA (mbarrier), and the
/// ring of stages that they guard. Source: PTX ISA, "Parallel Synchronization and Communication
/// Instructions: mbarrier".
///
/// A barrier is in a phase. The phase completes when all arrivals that init_barrier() asked for
/// have come, and all bytes that were announced; then the next one begins. A waiter names the
/// parity of the phase it waits for: the first phase has parity 0. A barrier that is in its first
/// phase counts the phase of parity 1 as completed: the fetcher's first wait for an empty stage
/// does not block.

#include "kernels/simt/simt.cuh"

namespace ultra::kernels::hopper {

/// @brief A barrier, 8 bytes of shared memory.
struct Barrier {
  /// @brief The hardware's state.
  unsigned long long state;
};

}  // namespace ultra::kernels::hopper

#if defined(__CUDACC__)

#include "kernels/simt/async_copy.cuh"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::hopper {
namespace {

using simt::gpu::shared_address;

/// @brief Makes a barrier of so many arrivals per phase. One thread calls it.
__device__ __forceinline__ void init_barrier(Barrier& barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&barrier)),
               "r"(arrivals)
               : "memory");
}

/// @brief Shows TMA and the blocks of the cluster the barriers that this thread has made. A barrier
/// of the block or the cluster must follow.
__device__ __forceinline__ void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// @brief Arrives, and announces bytes of TMA for this phase.
__device__ __forceinline__ void arrive_and_expect(Barrier& barrier, unsigned bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)),
      "r"(bytes)
      : "memory");
}

/// @brief Arrives.
__device__ __forceinline__ void arrive(Barrier& barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&barrier))
               : "memory");
}

/// @brief Arrives at the barrier in the same place of block `rank` of the cluster, and says that a
/// stage may be overwritten; nothing that this thread has *written* is promised to be seen there.
/// That would need .release.cluster here and .acquire.cluster at the wait, which are a fence of the
/// whole GPU (MEMBAR.ALL.GPU) and a flush of the first-level cache (CCTL.IVALL) at each step.
__device__ __forceinline__ void arrive_at(Barrier& barrier, unsigned rank) {
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
      "}" ::"r"(shared_address(&barrier)),
      "r"(rank)
      : "memory");
}

/// @brief Waits until the phase of this parity has completed. What arriving threads of this block
/// did before is seen behind it, and so are the bytes that TMA brought.
__device__ __forceinline__ void wait_for(Barrier& barrier, unsigned parity) {
  unsigned has_completed = 0;
  while (has_completed == 0) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n"
        "selp.u32 %0, 1, 0, done;\n"
        "}"
        : "=r"(has_completed)
        : "r"(shared_address(&barrier)), "r"(parity)
        : "memory");
  }
}

/// @brief This block's rank in its cluster.
__device__ __forceinline__ unsigned rank_in_cluster() {
  unsigned rank = 0;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

/// @brief Waits for all threads of all blocks of the cluster.
__device__ __forceinline__ void synchronise_cluster() {
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}

}  // namespace
}  // namespace ultra::kernels::hopper

#else

#include "kernels/simt/emulator/async/hooks.hpp"

// CUDA's words for kernels on Hopper, for the host's compiler: these macros are CUDA's.

/// @brief A parameter that engines may read where it lies.
#define __grid_constant__
/// @brief The blocks of a cluster; launch_clusters() says it to the emulator.
#define __cluster_dims__(...)

/// @brief Hopper's own instructions: on a GPU, and modelled in the emulator.
namespace ultra::kernels::hopper {
namespace {

using simt::emulator::shared_address;

/// @brief Makes a barrier of so many arrivals per phase. One thread calls it.
inline void init_barrier(Barrier& barrier, unsigned arrivals, const char* file = __builtin_FILE(),
                         int line = __builtin_LINE()) {
  simt::emulator::init_barrier(&barrier, arrivals, {.file = file, .line = line});
}

/// @brief Shows TMA and the blocks of the cluster the barriers that this thread has made.
inline void publish_barriers(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  simt::emulator::publish_barriers({.file = file, .line = line});
}

/// @brief Arrives, and announces bytes of TMA for this phase.
inline void arrive_and_expect(Barrier& barrier, unsigned bytes, const char* file = __builtin_FILE(),
                              int line = __builtin_LINE()) {
  simt::emulator::arrive(&barrier, bytes, {.file = file, .line = line});
}

/// @brief Arrives.
inline void arrive(Barrier& barrier, const char* file = __builtin_FILE(),
                   int line = __builtin_LINE()) {
  simt::emulator::arrive(&barrier, 0, {.file = file, .line = line});
}

/// @brief Arrives at the barrier in the same place of block `rank` of the cluster.
inline void arrive_at(Barrier& barrier, unsigned rank, const char* file = __builtin_FILE(),
                      int line = __builtin_LINE()) {
  simt::emulator::arrive_at(&barrier, rank, {.file = file, .line = line});
}

/// @brief Waits until the phase of this parity has completed.
inline void wait_for(Barrier& barrier, unsigned parity, const char* file = __builtin_FILE(),
                     int line = __builtin_LINE()) {
  simt::emulator::wait_for_phase(&barrier, parity, {.file = file, .line = line});
}

/// @brief This block's rank in its cluster.
inline unsigned rank_in_cluster() { return simt::emulator::rank_in_cluster(); }

/// @brief Waits for all threads of all blocks of the cluster.
inline void synchronise_cluster(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  simt::emulator::synchronise_cluster({.file = file, .line = line});
}

}  // namespace
}  // namespace ultra::kernels::hopper

#endif

namespace ultra::kernels::hopper {
namespace {

/// @brief Says that this warp has read a stage.
__device__ __forceinline__ void release(Barrier& is_empty) {
  if (threadIdx.x % 32 == 0) {
    arrive(is_empty);
  }
}

/// @brief A position in a ring of stages: which stage, and the parity of the round.
template <int stages>
struct RingPosition {
  /// @brief The stage.
  int stage = 0;
  /// @brief 0 in even rounds, 1 in odd ones.
  unsigned parity = 0;

  /// @brief Goes on to the next stage.
  __device__ __forceinline__ void advance() {
    if (++stage == stages) {
      stage = 0;
      parity ^= 1U;
    }
  }
};

}  // namespace
}  // namespace ultra::kernels::hopper

#pragma once
/// @file
/// mbarrier and the cluster's barrier on a GPU. kernels/hopper/emulator/barrier.hpp has the same for the
/// emulator.

#include "kernels/hopper/barrier_state.cuh"
#include "kernels/simt/gpu/async_copy.cuh"
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

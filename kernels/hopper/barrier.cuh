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

#include "kernels/hopper/barrier_state.cuh"
#include "kernels/simt/simt.cuh"

#if defined(__CUDACC__)
#include "kernels/hopper/gpu/barrier.cuh"
#else
#include "kernels/hopper/emulator/barrier.hpp"
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

#pragma once
/// @file
/// mbarrier and the cluster's barrier for the emulator (kernels/simt/emulator/async).
/// kernels/hopper/gpu/barrier.cuh has the same for a GPU, and says what each does.

#include "kernels/hopper/barrier_state.cuh"
#include "kernels/hopper/emulator/qualifiers.hpp"
#include "kernels/simt/emulator/async/hooks.hpp"

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

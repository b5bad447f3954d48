// Threads that do not work together: barriers, warp operations, races, waiting in vain.

#include <gtest/gtest.h>

#include <vector>

#include "tests/kernels/simt/support.hpp"

namespace ultra::simt::test {
namespace thread_faults_test {

constexpr int kBarrierAfterExit = __LINE__ + 5;
__global__ void early_exit_kernel(int count) {
  if (static_cast<int>(threadIdx.x) >= count) {
    return;
  }
  __syncthreads();
}

TEST(ThreadFaults, ExitBeforeABarrier) {
  EXPECT_NO_THROW(launch(early_exit_kernel, one_block(64), 64));
  expect_fault(Fault::kBarrier,
               {line_text(kBarrierAfterExit), "40 of 64 threads wait", "thread (40, 0, 0)",
                "has returned", "24 in all"},
               [&] { launch(early_exit_kernel, one_block(64), 40); });
}

constexpr int kFirstBarrier = __LINE__ + 3;
__global__ void two_barriers_kernel() {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

TEST(ThreadFaults, ThreadsAtDifferentBarriers) {
  expect_fault(Fault::kBarrier,
               {line_text(kFirstBarrier + 2), "thread (32, 0, 0)", "thread (0, 0, 0)",
                "_test.cpp:" + std::to_string(kFirstBarrier), "the same one"},
               [&] { launch(two_barriers_kernel, one_block(64)); });
}

constexpr int kLonelyShuffle = __LINE__ + 3;
__global__ void shuffle_or_barrier_kernel() {
  if (threadIdx.x < 16) {
    static_cast<void>(__shfl_sync(kAllLanes, 1, 0));
  }
  __syncthreads();
}

TEST(ThreadFaults, AWarpOperationAgainstABarrier) {
  expect_fault(
      Fault::kWarpOperation,
      {"__shfl_sync", line_text(kLonelyShuffle), "0xffffffff",
       "thread (16, 0, 0) waits at the barrier", "_test.cpp:" + std::to_string(kLonelyShuffle + 2)},
      [&] { launch(shuffle_or_barrier_kernel, one_block(32)); });
}

__global__ void different_operations_kernel() {
  if (threadIdx.x < 16) {
    static_cast<void>(__shfl_sync(kAllLanes, 1, 0));
  } else {
    __syncwarp();
  }
}

TEST(ThreadFaults, DifferentWarpOperations) {
  expect_fault(Fault::kWarpOperation, {"__syncwarp", "__shfl_sync", "the same operation"},
               [&] { launch(different_operations_kernel, one_block(32)); });
}

__global__ void different_masks_kernel() {
  static_cast<void>(__ballot_sync(threadIdx.x < 16 ? 0x7fffffffU : 0xffffffffU, 1));
}

TEST(ThreadFaults, DifferentMasks) {
  expect_fault(Fault::kWarpOperation, {"waits in __ballot_sync", "0xffffffff", "0x7fffffff"},
               [&] { launch(different_masks_kernel, one_block(32)); });
}

__global__ void mask_without_caller_kernel() { __syncwarp(0x0000ffffU); }

TEST(ThreadFaults, AMaskWithoutItsCaller) {
  expect_fault(Fault::kMask, {"thread (16, 0, 0)", "0x0000ffff", "without itself"},
               [&] { launch(mask_without_caller_kernel, one_block(32)); });
}

__global__ void exited_lanes_kernel(int exiting) {
  if (static_cast<int>(threadIdx.x) == exiting) {
    return;
  }
  static_cast<void>(warp_sum(1.0F));
}

TEST(ThreadFaults, AMaskThatNamesExitedLanes) {
  // Whether the lane ends before the others come, or while they wait.
  expect_fault(Fault::kMask, {"__shfl_xor_sync", "of which 0x00000001 have returned"},
               [&] { launch(exited_lanes_kernel, one_block(32), 0); });
  expect_fault(Fault::kMask, {"__shfl_xor_sync", "of which 0x80000000 have returned"},
               [&] { launch(exited_lanes_kernel, one_block(32), 31); });
}

__global__ void half_warp_sum_kernel() { static_cast<void>(warp_sum(1)); }

TEST(ThreadFaults, AShuffleFromALaneThatDoesNotExist) {
  expect_fault(Fault::kMask, {"takes the value of lane 16", "whole warps"},
               [&] { launch(half_warp_sum_kernel, one_block(16)); });
}

constexpr int kRaceLoad = __LINE__ + 8;
__global__ void race_kernel(float* out, int barriers) {
  __shared__ float numbers[64];
  const int thread = static_cast<int>(threadIdx.x);
  sts(&numbers[thread], 1.0F);
  if (barriers > 0) {
    __syncthreads();
  }
  const float value = lds(&numbers[63 - thread]);
  if (barriers > 1) {
    __syncthreads();
  }
  sts(&numbers[thread], value + static_cast<float>(thread));
  stg(&out[thread], value);
}

TEST(ThreadFaults, AMissingBarrier) {
  Buffer<float> out("output", std::size_t{64});
  EXPECT_NO_THROW(launch(race_kernel, one_block(64), out.data(), 2));
  // Threads run in order here. With no barrier, a thread reads what a later one writes afterwards. With
  // the first barrier only, thread 63 is the first to go on, and overwrites what thread 0 has yet to
  // read.
  expect_fault(Fault::kRace,
               {"race_kernel::numbers", line_text(kRaceLoad - 4), "reads at",
                "_test.cpp:" + std::to_string(kRaceLoad), "__syncthreads()"},
               [&] { launch(race_kernel, one_block(64), out.data(), 0); });
  expect_fault(
      Fault::kRace,
      {"thread (0, 0, 0)", line_text(kRaceLoad), "reads byte 252", "thread (63, 0, 0) writes at",
       "_test.cpp:" + std::to_string(kRaceLoad + 4), "__syncthreads()"},
      [&] { launch(race_kernel, one_block(64), out.data(), 1); });
}

__global__ void read_before_write_kernel(float* out) {
  __shared__ float number;
  if (threadIdx.x == 0) {
    sts(&number, 1.0F);
  }
  stg(&out[threadIdx.x], lds(&number));
}

TEST(ThreadFaults, ARaceThatThisOrderOfThreadsHides) {
  Buffer<float> out("output", std::size_t{64});
  EXPECT_NO_THROW(launch(read_before_write_kernel, one_block(1), out.data()));
  expect_fault(Fault::kRace, {"thread (1, 0, 0)", "thread (0, 0, 0) writes"},
               [&] { launch(read_before_write_kernel, one_block(64), out.data()); });
}

__global__ void half_race_kernel(int distance) {
  __shared__ half numbers[128];
  sts(&numbers[static_cast<int>(threadIdx.x) * distance / 2],
      half(static_cast<float>(threadIdx.x)));
}

TEST(ThreadFaults, NeighboursInOneWordDoNotRace) {
  EXPECT_NO_THROW(launch(half_race_kernel, one_block(64), 2));
  expect_fault(Fault::kRace, {"half_race_kernel::numbers", "writes byte 0"},
               [&] { launch(half_race_kernel, one_block(64), 1); });
}

__global__ void warp_exchange_kernel(int* out, bool synchronised) {
  __shared__ int numbers[64];
  const int thread = static_cast<int>(threadIdx.x);
  sts(&numbers[thread], thread);
  static_cast<void>(__any_sync(kAllLanes, 1));  // meets, but orders no memory
  if (synchronised) {
    __syncwarp();
  }
  stg(&out[thread], lds(&numbers[thread ^ 1]));
}

TEST(ThreadFaults, SyncwarpOrdersTheLanesOfAWarp) {
  Buffer<int> out("output", std::size_t{64});
  EXPECT_NO_THROW(launch(warp_exchange_kernel, one_block(64), out.data(), true));
  EXPECT_EQ(out.download().at(7), 6);
  expect_fault(Fault::kRace, {"warp_exchange_kernel::numbers"},
               [&] { launch(warp_exchange_kernel, one_block(64), out.data(), false); });
}

__global__ void atomic_race_kernel(int* out, bool barrier) {
  __shared__ int sum;
  if (threadIdx.x == 0) {
    sts(&sum, 0);
  }
  __syncthreads();
  atomicAdd(&sum, 1);
  if (barrier) {
    __syncthreads();
  }
  if (threadIdx.x == 63) {
    stg(out, lds(&sum));
  }
}

TEST(ThreadFaults, AtomicsRaceWithPlainReadsOnly) {
  Buffer<int> out("output", std::size_t{1});
  EXPECT_NO_THROW(launch(atomic_race_kernel, one_block(64), out.data(), true));
  EXPECT_EQ(out.download().at(0), 64);
  expect_fault(Fault::kRace, {"atomic_race_kernel::sum"},
               [&] { launch(atomic_race_kernel, one_block(64), out.data(), false); });
}

__global__ void wait_for_flag_kernel(int* flag, int setter) {
  if (static_cast<int>(threadIdx.x) == setter) {
    stg(flag, 1);
  }
  while (ldg(flag) == 0) {
  }
}

TEST(ThreadFaults, WaitingInVain) {
  Buffer<int> flag("flag", std::vector<int>{0});
  // A later thread of the block gets its turn; another block never does.
  EXPECT_NO_THROW(launch(wait_for_flag_kernel, one_block(64), flag.data(), 63));
  flag.upload(std::vector<int>{0});
  expect_fault(Fault::kSpinWait, {"thread_faults_test.cpp", "blocks run one after the other"},
               [&] { launch(wait_for_flag_kernel, one_block(64), flag.data(), 64); });
}

__global__ void lock_kernel(int* lock, int* count) {
  while (atomicCAS(lock, 0, 1) != 0) {
  }
  stg(count, ldg(count) + 1);
  atomicExch(lock, 0);
}

TEST(ThreadFaults, ALockIsGivenBack) {
  Buffer<int> lock("lock", std::vector<int>{0});
  Buffer<int> count("count", std::vector<int>{0});
  EXPECT_NO_THROW(launch(lock_kernel, one_block(96), lock.data(), count.data()));
  EXPECT_EQ(count.download().at(0), 96);
  lock.upload(std::vector<int>{1});
  expect_fault(Fault::kSpinWait, {"repeats this access for ever"},
               [&] { launch(lock_kernel, one_block(96), lock.data(), count.data()); });
}

// Recursion that the compiler cannot turn into a loop.
int descend(int depth, const volatile int* before) {
  volatile int frame[256] = {};
  frame[depth % 256] = *before + 1;
  return depth == 0 ? frame[0] : descend(depth - 1, frame) + frame[depth % 256];
}

__global__ void deep_kernel(int* out, int depth) {
  const volatile int start = 0;
  __syncthreads();
  stg(&out[threadIdx.x], descend(depth, &start));
}

TEST(ThreadFaults, AStackThatOverflows) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer does not know jumps from one fiber to another";
#endif
  Buffer<int> out("output", std::size_t{64});
  EXPECT_NO_THROW(launch(deep_kernel, one_block(64), out.data(), 8));
  for (int round = 0; round < 3; ++round) {
    expect_fault(Fault::kStackOverflow, {"kernel: block (0, 0, 0)", "stack of 128 KiB"},
                 [&] { launch(deep_kernel, one_block(64), out.data(), 100000); });
  }
  EXPECT_NO_THROW(launch(deep_kernel, one_block(64), out.data(), 8));
}

struct KernelFailure {};
struct CountedObject {
  explicit CountedObject(int* destroyed) : destroyed_(destroyed) {}
  ~CountedObject() { ++*destroyed_; }
  CountedObject(const CountedObject&) = delete;
  CountedObject& operator=(const CountedObject&) = delete;
  int* destroyed_;
};

__global__ void throwing_kernel(int* destroyed) {
  const CountedObject object(destroyed);
  __syncthreads();
  if (threadIdx.x == 63) {
    throw KernelFailure{};
  }
  __syncthreads();
}

TEST(ThreadFaults, WhatAKernelThrowsUnwindsAllThreads) {
  int destroyed = 0;
  EXPECT_THROW(launch(throwing_kernel, one_block(64), &destroyed), KernelFailure);
  EXPECT_EQ(destroyed, 64);
}

void do_nothing_kernel() {}

TEST(ThreadFaults, LaunchesThatNoGpuAccepts) {
  const auto refused = [](const Config& config, const std::vector<std::string>& parts) {
    expect_fault(Fault::kLaunch, parts, [&] { launch(do_nothing_kernel, config); });
  };
  refused({.name = "empty", .grid = {.x = 0}, .block = {}}, {"launch of empty", "(0, 1, 1)"});
  refused({.name = "tall", .grid = {.y = 65536}, .block = {}}, {"(1, 65536, 1)"});
  refused({.name = "none", .grid = {}, .block = {.y = 0}}, {"the block is (1, 0, 1)"});
  refused({.name = "deep", .grid = {}, .block = {.z = 65}}, {"(1024, 1024, 64)"});
  refused({.name = "many", .grid = {}, .block = {.x = 33, .y = 32}}, {"1056 threads", "1024"});
  refused({.name = "large", .grid = {}, .block = {}, .shared_bytes = kMostSharedBytes + 1},
          {"232449 bytes", "227 KiB"});
}

__global__ void nested_kernel() { launch(do_nothing_kernel, one_block(1)); }

TEST(ThreadFaults, ALaunchInsideAKernel) {
  expect_fault(Fault::kLaunch, {"from inside a kernel"},
               [&] { launch(nested_kernel, one_block(1)); });
}

}  // namespace thread_faults_test
}  // namespace ultra::simt::test

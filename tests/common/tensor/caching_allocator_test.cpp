// Memory that is handed out again.
//
// Covers: common/tensor/stream_pool.hpp
// Covers: common/tensor/memory_tracker.hpp

#include "common/tensor/caching_allocator.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "common/gpu/order_checker.hpp"
#include "common/tensor/memory_tracker.hpp"
#include "common/tensor/stream_pool.hpp"
#include "tests/support/sanitizer.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra {
namespace {

class CachingAllocatorTest : public test::RandomTest {
 protected:
  CachingAllocator allocator;
};

TEST_F(CachingAllocatorTest, ASizeClassHoldsTheRequestAndWastesLittle) {
  for (int i = 0; i < 2000; ++i) {
    const std::size_t bytes = random.between(0, std::size_t{1} << random.between(0, 40));
    const std::size_t size = CachingAllocator::size_class(bytes);
    ASSERT_GE(size, bytes);
    ASSERT_EQ(size % 64, 0U) << bytes;
    ASSERT_EQ(CachingAllocator::size_class(size), size) << bytes;
    if (bytes > 512) {
      ASSERT_LE(static_cast<double>(size - bytes), 0.125 * static_cast<double>(size)) << bytes;
    }
  }
}

TEST_F(CachingAllocatorTest, BlocksAreAlignedToCacheLines) {
  std::vector<std::pair<void*, std::size_t>> blocks;
  for (int i = 0; i < 50; ++i) {
    const std::size_t bytes = random.between(0, i % 10 == 0 ? 5'000'000 : 5'000);
    void* block = allocator.allocate(bytes);
    blocks.emplace_back(block, bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 64, 0U) << bytes;
    std::memset(block, 1, bytes);
  }
  for (const auto& [block, bytes] : blocks) allocator.release(block, bytes);
}

TEST_F(CachingAllocatorTest, AFreedBlockServesTheNextRequestOfItsClass) {
  void* const first = allocator.allocate(1000);
  allocator.release(first, 1000);
  EXPECT_EQ(allocator.system_allocations(), 1U);
  void* const second = allocator.allocate(1020);  // both are of class 1024
  EXPECT_EQ(second, first);
  EXPECT_EQ(allocator.system_allocations(), 1U);
  void* const third = allocator.allocate(1000);  // the pool is empty again
  EXPECT_NE(third, second);
  EXPECT_EQ(allocator.system_allocations(), 2U);
  EXPECT_EQ(allocator.reserved_bytes(), 2048U);
  allocator.release(second, 1020);
  allocator.release(third, 1000);
}

TEST_F(CachingAllocatorTest, TrimmingGivesThePoolBackButNotBlocksInUse) {
  void* const used = allocator.allocate(64);
  void* const freed = allocator.allocate(4096);
  allocator.release(freed, 4096);
  allocator.trim();
  EXPECT_EQ(allocator.reserved_bytes(), 64U);
  std::memset(used, 7, 64);
  allocator.release(used, 64);
  allocator.trim();
  EXPECT_EQ(allocator.reserved_bytes(), 0U);
}

/// From now on the process gets `bytes` of memory more, and no more.
void limit_memory(std::size_t bytes) {
  std::size_t pages = 0;  // of the whole address space
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t most = pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) + bytes;
  const rlimit limit{.rlim_cur = most, .rlim_max = most};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
}

/// Ends the process with 0 when a large block can be had while the pool holds most of the memory.
[[noreturn]] void allocate_with_a_full_pool() {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  limit_memory(512 * kMiB);
  CachingAllocator allocator;
  std::vector<void*> blocks;
  for (int i = 0; i < 6; ++i) blocks.push_back(allocator.allocate(64 * kMiB));
  for (void* block : blocks) allocator.release(block, 64 * kMiB);
  const bool held = allocator.reserved_bytes() == 384 * kMiB;
  void* const large = allocator.allocate(320 * kMiB);
  const bool given_back = allocator.reserved_bytes() == 320 * kMiB;
  allocator.release(large, 320 * kMiB);
  std::exit(held && given_back ? 0 : 1);
}

using CachingAllocatorDeathTest = CachingAllocatorTest;

TEST_F(CachingAllocatorDeathTest, WithoutMoreFromTheSystemThePoolIsGivenBack) {
  if (test::sanitizer_owns_the_heap()) GTEST_SKIP() << "a sanitizer takes address space itself";
  EXPECT_EXIT(allocate_with_a_full_pool(), testing::ExitedWithCode(0), "");
}

/// What the system does not have without the pool it does not have with it either.
TEST_F(CachingAllocatorTest, WhatTheSystemDoesNotHaveIsRefused) {
  if (test::sanitizer_owns_the_heap()) GTEST_SKIP() << "a sanitizer ends the program instead";
  void* const used = allocator.allocate(1000);
  allocator.release(allocator.allocate(5000), 5000);
  EXPECT_THROW(static_cast<void>(allocator.allocate(std::size_t{1} << 60)), std::bad_alloc);
  EXPECT_EQ(allocator.reserved_bytes(), 1024U) << "what is in use stays";
  allocator.release(used, 1000);
}

using gpu::StreamRole::kCompute;
constexpr gpu::StreamRole kExchange = gpu::StreamRole::kCommunication;

/// The emulated device with a pool.
class EmulatedPool {
 public:
  std::shared_ptr<gpu::Runtime> runtime = gpu::make_emulated_runtime();
  std::unique_ptr<gpu::Streams> streams = runtime->make_streams(0);
  StreamPool pool{*runtime, *streams};

  void writes(gpu::StreamRole role, void* block) const {
    const gpu::Launch launch(*streams, role, "a write", {}, {{block, 64}});
  }
};

TEST(StreamPool, AUseOnAnotherStreamThatNobodyToldIsFound) {
  EmulatedPool device;
  void* const block = device.pool.allocate(64, kCompute);
  device.writes(kExchange, block);
  device.pool.release(block, 64);
  void* const next = device.pool.allocate(64, kCompute);
  EXPECT_EQ(next, block);
  EXPECT_THROW(device.writes(kCompute, next), gpu::OrderError);
  device.pool.release(next, 64);
}

TEST(StreamPool, AUseOnAnotherStreamIsWaitedForByTheNextOwner) {
  EmulatedPool device;
  void* const block = device.pool.allocate(64, kCompute);
  device.pool.used_on(block, kExchange);
  device.writes(kExchange, block);
  device.pool.release(block, 64);
  void* const next = device.pool.allocate(64, kCompute);
  EXPECT_EQ(next, block);
  device.writes(kCompute, next);
  EXPECT_EQ(device.streams->synchronizations(), 0U);
  device.pool.release(next, 64);
}

using enum MemoryCategory;

TEST(MemoryTracker, APeakCarriesThePhaseInWhichItWasReached) {
  MemoryTracker tracker;
  tracker.add(kActivations, 1);
  EXPECT_EQ(tracker.peak(kActivations).phase, "setup");
  tracker.set_phase("step 1: forward");
  tracker.add(kActivations, 99);
  tracker.set_phase("step 1: backward");
  tracker.remove(kActivations, 60);
  tracker.add(kGradients, 80);
  tracker.set_phase("step 1: optimizer");
  tracker.remove(kActivations, 40);

  EXPECT_EQ(tracker.peak(kActivations).bytes, 100U);
  EXPECT_EQ(tracker.peak(kActivations).phase, "step 1: forward");
  EXPECT_EQ(tracker.peak(kGradients).bytes, 80U);
  EXPECT_EQ(tracker.peak(kGradients).phase, "step 1: backward");
  EXPECT_EQ(tracker.peak_total().bytes, 120U);
  EXPECT_EQ(tracker.peak_total().phase, "step 1: backward");
  EXPECT_EQ(tracker.usage_at_peak()[kActivations], 40U);
  EXPECT_EQ(tracker.usage_at_peak()[kGradients], 80U);
  EXPECT_EQ(tracker.usage_at_peak().total(), tracker.peak_total().bytes);
}

TEST(MemoryTracker, APeakThatIsReachedAgainKeepsItsFirstPhase) {
  MemoryTracker tracker;
  tracker.set_phase("first");
  tracker.add(kOther, 10);
  tracker.remove(kOther, 10);
  tracker.set_phase("second");
  tracker.add(kOther, 10);
  EXPECT_EQ(tracker.peak(kOther).phase, "first");
  EXPECT_EQ(tracker.peak_total().phase, "first");
}

TEST(MemoryTracker, ResettingStartsThePeaksFromTheCurrentUsage) {
  MemoryTracker tracker;
  tracker.add(kParameters, 10);
  tracker.add(kOther, 90);
  tracker.remove(kOther, 85);
  tracker.set_phase("step 2");
  tracker.reset_peaks();
  EXPECT_EQ(tracker.peak_total().bytes, 15U);
  EXPECT_EQ(tracker.peak_total().phase, "step 2");
  EXPECT_EQ(tracker.peak(kOther).bytes, 5U);
  EXPECT_EQ(tracker.usage_at_peak()[kParameters], 10U);
  tracker.add(kOther, 1);
  EXPECT_EQ(tracker.peak_total().bytes, 16U);
}

}  // namespace
}  // namespace ultra

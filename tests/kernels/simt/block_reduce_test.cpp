// What kernels share: sums over a block, and kernels that begin early.
//
// Covers: kernels/simt/block_reduce.cuh kernels/simt/pack.cuh
// Covers: kernels/simt/dependent_launch.cuh kernels/simt/recording.hpp
// Covers: kernels/simt/async_copy.cuh

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "kernels/simt/async_copy.cuh"
#include "kernels/simt/block_reduce.cuh"
#include "kernels/simt/dependent_launch.cuh"
#include "kernels/simt/pack.cuh"
#include "kernels/simt/recording.hpp"
#include "kernels/simt/simt.cuh"
#include "tests/kernels/simt/support.hpp"

namespace ultra::simt::test {
namespace block_reduce_test {

// Every thread's sum of `values`, of which each thread has one per round.
__global__ void block_sum_kernel(const float* values, float* sums, int rounds) {
  __shared__ float warp_sums[2][kMostWarps];
  const int threads = static_cast<int>(blockDim.x);
  const int thread = static_cast<int>(threadIdx.x);
  for (int round = 0; round < rounds; ++round) {
    const float value = ldg(&values[round * threads + thread]);
    stg(&sums[round * threads + thread], block_sum(value, warp_sums[round % 2]));
  }
}

TEST(BlockSum, EveryThreadHasTheSumInEveryRound) {
  constexpr int kRounds = 5;
  for (const int threads : {32, 64, 96, 1024}) {
    const std::vector<float> values = whole_numbers<float>(kRounds * threads);
    const Buffer<float> given("given", values);
    Buffer<float> sums("sums", values.size());
    launch(block_sum_kernel, {.name = "block_sum", .block = {.x = static_cast<unsigned>(threads)}},
           given.data(), sums.data(), kRounds);
    const std::vector<float> found = sums.download();
    for (int round = 0; round < kRounds; ++round) {
      const auto first = values.begin() + round * threads;
      const float expected = std::accumulate(first, first + threads, 0.0F);
      for (int thread = 0; thread < threads; ++thread) {
        ASSERT_EQ(at(found, round * threads + thread), expected) << threads << " threads";
      }
    }
  }
}

__global__ void copy_packs_kernel(const float* from, float* to) {
  using Floats = Pack<float, 4>;
  const Floats some = ldg(&reinterpret_cast<const Floats*>(from)[threadIdx.x]);
  stg(&reinterpret_cast<Floats*>(to)[threadIdx.x], some);
}

TEST(Pack, MovesItsElementsInOneAccess) {
  static_assert(sizeof(Pack<float, 4>) == 16 && alignof(Pack<float, 4>) == 16);
  static_assert(sizeof(Pack<bf16, 8>) == 16 && alignof(Pack<bf16, 8>) == 16);
  const std::vector<float> values = whole_numbers<float>(128);
  const Buffer<float> from("from", values);
  Buffer<float> to("to", values.size());
  const Report report = recorded(copy_packs_kernel, {.name = "copy_packs", .block = {.x = 32}},
                                 from.data(), to.data());
  EXPECT_EQ(to.download(), values);
  EXPECT_EQ(report.total(AccessKind::kGlobalLoad).requests, 1U);
  EXPECT_EQ(report.total(AccessKind::kGlobalLoad).sectors, 16U);
}

__global__ void fill_kernel(float* out) { stg(&out[threadIdx.x], 1.0F); }

enum class Use { kReadsWeights, kReadsBefore, kWritesBefore, kNeverWaits };

// out = in + weights; `use` says what it does before its wait.
__global__ void add_kernel(const float* in, const float* weights, float* out, Use use) {
  const int lane = static_cast<int>(threadIdx.x);
  const float weight = ldg(&weights[lane]);
  if (use == Use::kReadsBefore) {
    static_cast<void>(ldg(&in[lane]));
  }
  if (use == Use::kWritesBefore) {
    stg(&out[lane], 0.0F);
  }
  if (use == Use::kNeverWaits) {
    return;
  }
  let_next_kernel_begin();
  wait_for_kernel_before();
  const float value = ldg(&in[lane]);
  stg(&out[lane], value + weight);
}

class DependentLaunch : public ::testing::Test {
 protected:
  void run(Use use, Start start = Start::kBesideTheKernelBefore) {
    launch(fill_kernel, one_block(32), state_.data());
    Config config = one_block(32);
    config.start = start;
    launch(add_kernel, config, state_.data(), weights_.data(), out_.data(), use);
  }

  Buffer<float> state_{"state", std::size_t{32}};
  Buffer<float> weights_{"weights", std::vector<float>(32, 2.0F)};
  Buffer<float> out_{"out", std::size_t{32}};
};

TEST_F(DependentLaunch, LoadsWhatNobodyWritesBeforeItWaits) {
  run(Use::kReadsWeights);
  EXPECT_EQ(out_.download(), std::vector<float>(32, 3.0F));
}

TEST_F(DependentLaunch, MayNotReadWhatTheKernelBeforeWrites) {
  expect_fault(Fault::kOrder, {"reads buffer 'state'", "wait_for_kernel_before() first"},
               [&] { run(Use::kReadsBefore); });
}

TEST_F(DependentLaunch, MayNotWriteBeforeItWaits) {
  expect_fault(Fault::kOrder, {"writes buffer 'out'", "may still read or write"},
               [&] { run(Use::kWritesBefore); });
}

TEST_F(DependentLaunch, MustWait) {
  expect_fault(Fault::kOrder, {"no thread of it waits", "wait_for_kernel_before()"},
               [&] { run(Use::kNeverWaits); });
}

TEST_F(DependentLaunch, AKernelBehindTheOneBeforeMayDoAllOfThis) {
  for (const Use use : {Use::kReadsBefore, Use::kWritesBefore, Use::kNeverWaits}) {
    run(use, Start::kBehindTheKernelBefore);
  }
}

// The kernel before has let this one begin before it has waited for its own.
TEST_F(DependentLaunch, MayNotReadWhatAnEarlierKernelOfTheChainWrites) {
  run(Use::kReadsWeights);
  Buffer<float> second("second", std::size_t{32});
  Config config = one_block(32);
  config.start = Start::kBesideTheKernelBefore;
  expect_fault(Fault::kOrder, {"reads buffer 'state'"}, [&] {
    launch(add_kernel, config, out_.data(), state_.data(), second.data(), Use::kReadsWeights);
  });
  config.start = Start::kBehindTheKernelBefore;  // everything before has ended
  launch(add_kernel, config, out_.data(), state_.data(), second.data(), Use::kReadsWeights);
  EXPECT_EQ(second.download(), std::vector<float>(32, 4.0F));
}

TEST(Recording, ReplaysWhatWasRecorded) {
  for (const Executor executor : {Executor::kChecked, Executor::kFast}) {
    Recording recording(executor);
    int first = 0;
    int second = 0;
    recording.replay({}, [&](const Queue&) { ++first; });
    recording.replay({}, [&](const Queue&) { ++second; });
    EXPECT_EQ(first, 2);
    EXPECT_EQ(second, 0);
  }
}

}  // namespace block_reduce_test
}  // namespace ultra::simt::test

// Copies in the background: what is read too early, or overwritten too early, is found.
namespace ultra::simt::test {
namespace async_copy_test {
// How a kernel that copies one tile, and reads it, goes about it.
enum class Manner { kRight, kNoWait, kNoCommit, kNoBarrier, kWaitBehindBarrier, kWaitForTooFew };

constexpr int kCopyLine = __LINE__ + 4;
__global__ void copy_kernel(const float* in, float* out, Manner manner) {
  __shared__ __align__(16) float tile[128];
  const int thread = static_cast<int>(threadIdx.x);
  copy_async<16>(&tile[thread * 4], &in[thread * 4]);
  if (manner != Manner::kNoCommit) {
    commit_copies();
  }
  if (manner == Manner::kWaitForTooFew) {
    wait_copies<1>();
  } else if (manner != Manner::kNoWait && manner != Manner::kWaitBehindBarrier) {
    wait_copies<0>();
  }
  if (manner != Manner::kNoBarrier) {
    __syncthreads();  // the others' copies have landed
  }
  if (manner == Manner::kWaitBehindBarrier) {
    wait_copies<0>();
  }
  for (int i = 0; i < 4; ++i) {
    const float value = lds(&tile[127 - thread * 4 - i]);
    stg(&out[thread * 4 + i], value);
  }
}

class AsyncCopy : public ::testing::Test {
 protected:
  Report run(Manner manner) {
    return recorded(copy_kernel, one_block(32), in_.data(), out_.data(), manner);
  }

  const Buffer<float> in_{"in", whole_numbers<float>(128)};
  Buffer<float> out_{"out", std::size_t{128}};
};

TEST_F(AsyncCopy, LandsAtItsWait) {
  const Report report = run(Manner::kRight);
  const std::vector<float> in = in_.download();
  EXPECT_EQ(out_.download(), std::vector<float>(in.rbegin(), in.rend()));
  const Site load = report.total(AccessKind::kGlobalLoad);
  EXPECT_EQ(load.requests, 1U);
  EXPECT_EQ(load.sectors, 16U);  // 512 bytes
  const Site store = report.total(AccessKind::kSharedStore);
  EXPECT_EQ(store.requests, 1U);
  EXPECT_EQ(store.wavefronts, 4U);
  EXPECT_EQ(report.at_line(kCopyLine).bytes, 2U * 512U);
}

TEST_F(AsyncCopy, AMissingWaitIsFound) {
  for (const Manner manner : {Manner::kNoWait, Manner::kNoCommit, Manner::kWaitForTooFew}) {
    expect_fault(Fault::kUninitialised,
                 {" of copy_kernel::tile", "has not written yet",
                  line_text(kCopyLine).substr(0, line_text(kCopyLine).size() - 1), "wait_copies()"},
                 [&] { static_cast<void>(run(manner)); });
  }
}

TEST_F(AsyncCopy, AMissingBarrierIsARace) {
  // Thread 0 reads what thread 31's copy has not landed; behind a barrier that does not follow the
  // wait, either the landing or the read comes first.
  EXPECT_THROW(static_cast<void>(run(Manner::kNoBarrier)), SimtError);
  EXPECT_THROW(static_cast<void>(run(Manner::kWaitBehindBarrier)), SimtError);
}

// A ring of stages, each of which is overwritten while others may still read it, unless there is a
// barrier behind the reads.
template <bool has_barrier>
__global__ void ring_kernel(const float* in, float* out, int steps) {
  __shared__ __align__(16) float ring[2][128];
  const int thread = static_cast<int>(threadIdx.x);
  copy_async<4>(&ring[0][thread], &in[thread]);
  commit_copies();
  float sum = 0.0F;
  for (int step = 0; step < steps; ++step) {
    if (step + 1 < steps) {
      copy_async<4>(&ring[(step + 1) % 2][thread], &in[(step + 1) * 128 + thread]);
    }
    commit_copies();
    wait_copies<1>();
    __syncthreads();  // the others' copies of this step have landed
    sum += lds(&ring[step % 2][127 - thread]);
    if (has_barrier) {
      __syncthreads();  // all have read what the next round overwrites
    }
  }
  stg(&out[thread], sum);
}

TEST(AsyncCopyRing, KeepsGroupsInFlight) {
  const std::vector<float> values = whole_numbers<float>(128 * 5);
  const Buffer<float> in("in", values);
  Buffer<float> out("out", std::size_t{128});
  launch(ring_kernel<true>, one_block(128), in.data(), out.data(), 5);
  const std::vector<float> result = out.download();
  for (int thread = 0; thread < 128; ++thread) {
    float expected = 0.0F;
    for (int step = 0; step < 5; ++step) {
      expected += at(values, step * 128 + 127 - thread);
    }
    EXPECT_EQ(at(result, thread), expected);
  }
}

TEST(AsyncCopyRing, OverwritingWhatOthersReadIsARace) {
  const Buffer<float> in("in", whole_numbers<float>(128 * 5));
  Buffer<float> out("out", std::size_t{128});
  expect_fault(Fault::kRace, {"ring", "no barrier between them"},
               [&] { launch(ring_kernel<false>, one_block(128), in.data(), out.data(), 5); });
}

__global__ void ragged_kernel(const float* in, float* out, int source_bytes) {
  __shared__ __align__(16) float4 value;
  copy_async<16>(&value, in, source_bytes);
  commit_copies();
  wait_copies<0>();
  const float4 all = lds(&value);
  stg(reinterpret_cast<float4*>(out), all);
}

TEST(AsyncCopyEdge, TheRestIsZero) {
  const Buffer<float> in("in", std::vector<float>{1, 2, 3});
  Buffer<float> out("out", std::size_t{4});
  for (int count = 0; count <= 3; ++count) {
    launch(ragged_kernel, one_block(1), in.data(), out.data(), count * 4);
    std::vector<float> expected(4, 0.0F);
    for (int i = 0; i < count; ++i) {
      expected[static_cast<std::size_t>(i)] = static_cast<float>(i + 1);
    }
    EXPECT_EQ(out.download(), expected) << count;
  }
  expect_fault(Fault::kOutOfBounds, {"reads 16 bytes", "'in'"},
               [&] { launch(ragged_kernel, one_block(1), in.data(), out.data(), 16); });
  expect_fault(Fault::kOutOfBounds, {"-4 source bytes", "0 to 16"},
               [&] { launch(ragged_kernel, one_block(1), in.data(), out.data(), -4); });
  expect_fault(Fault::kMisaligned, {"'in' at byte 4", "a multiple of 16"},
               [&] { launch(ragged_kernel, one_block(1), in.data() + 1, out.data(), 8); });
}

}  // namespace async_copy_test
}  // namespace ultra::simt::test

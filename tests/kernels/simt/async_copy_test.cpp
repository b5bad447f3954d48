// Copies in the background: what is read too early, or overwritten too early, is found.
// Covers: kernels/simt/async_copy.cuh

#include "kernels/simt/async_copy.cuh"

#include <gtest/gtest.h>

#include <vector>

#include "tests/kernels/simt/support.hpp"

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

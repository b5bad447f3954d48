// Kernels that begin beside the one before: what they may touch before they wait for it.
// Covers: kernels/simt/dependent_launch.cuh kernels/simt/recording.hpp

#include "kernels/simt/dependent_launch.cuh"

#include <gtest/gtest.h>

#include "kernels/simt/recording.hpp"
#include "kernels/simt/simt.cuh"
#include "tests/kernels/simt/support.hpp"

namespace ultra::simt::test {
namespace {

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
  for (const Side side : {Side::kInstrumented, Side::kBare}) {
    Recording recording(side);
    int first = 0;
    int second = 0;
    recording.replay({}, [&](const Queue&) { ++first; });
    recording.replay({}, [&](const Queue&) { ++second; });
    EXPECT_EQ(first, 2);
    EXPECT_EQ(second, 0);
  }
}

}  // namespace
}  // namespace ultra::simt::test

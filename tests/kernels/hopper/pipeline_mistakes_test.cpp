// A product through a ring of two stages, right and with one mistake each: what would hang or race on a
// GPU is found, and said in words.
// Covers: kernels/hopper/barrier.cuh, kernels/hopper/tma.cuh, kernels/hopper/wgmma.cuh

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/hopper/prepare.cuh"
#include "kernels/hopper/wgmma.cuh"
#include "tests/kernels/simt/support.hpp"

namespace ultra::simt::test {
namespace pipeline_mistakes_test {

using namespace kernels::hopper;

// What is done otherwise than it should be.
enum class Mistake {
  kNone,
  kConsumerParity,      // waits for the phase before
  kConsumerParityLate,  // ... in the last step alone
  kConsumerWaitsOn,     // waits for the phase behind, too
  kProducerParity,      // waits for the phase that only its own boxes complete
  kTooFewBytes,         // announces a's box alone
  kTooManyBytes,
  kNoPublish,
  kNoBarrierBehindInit,
  kNoInit,
  kTooManyArrivals,  // init_barrier() is told one warp of four
  kTooFewArrivals,   // ... and five
  kNoRelease,
  kReleaseBeforeWait,
  kNoFence,
  kNoCommit,
  kNoWaitForProducts,
  kSumsBeforeWait,
  kNoSwizzleInDescriptor,
  kWrongStride,
  kOwnRowsInDescriptor,  // each warp its own rows
  kNoWaitForBoxes,
  kMisplacedBox,
};

constexpr int kStages = 2;
constexpr int kTile = 64;

struct Shared {
  uint4 a[kStages][kTile * kRowUnits];
  uint4 b[kStages][kTile * kRowUnits];
  Barrier are_full[kStages];
  Barrier are_empty[kStages];
};

void make_barriers(Shared& shared, Mistake mistake) {
  for (int stage = 0; stage < kStages; ++stage) {
    init_barrier(shared.are_full[stage], 1);
    const unsigned warps = mistake == Mistake::kTooManyArrivals  ? 1
                           : mistake == Mistake::kTooFewArrivals ? 5
                                                                 : 4;
    init_barrier(shared.are_empty[stage], warps);
  }
  if (mistake != Mistake::kNoPublish) {
    publish_barriers();
  }
}

void fetch(Shared& shared, const TensorMap& a_map, const TensorMap& b_map, int depth,
           Mistake mistake) {
  RingPosition<kStages> at;
  for (int k = 0; k < depth; k += kTile) {
    const unsigned parity = mistake == Mistake::kProducerParity ? at.parity : at.parity ^ 1U;
    wait_for(shared.are_empty[at.stage], parity);
    constexpr unsigned kBox = sizeof shared.a[0];
    const unsigned bytes = mistake == Mistake::kTooFewBytes    ? kBox
                           : mistake == Mistake::kTooManyBytes ? 2 * kBox + 16
                                                               : 2 * kBox;
    arrive_and_expect(shared.are_full[at.stage], bytes);
    const int past = mistake == Mistake::kMisplacedBox ? 1 : 0;
    fetch_box(shared.a[at.stage] + past, a_map, 0, k, shared.are_full[at.stage]);
    fetch_box(shared.b[at.stage], b_map, 0, k, shared.are_full[at.stage]);
    at.advance();
  }
}

// Begins the products of a stage, as multiply_tiles_async().
void begin_stage(float (&sums)[32], const Shared& shared, int stage, Mistake mistake) {
  constexpr unsigned long long kSwizzles = 3ULL << 62;
  unsigned long long a = describe(shared.a[stage]);
  unsigned long long b = describe(shared.b[stage]);
  if (mistake == Mistake::kNoSwizzleInDescriptor) {
    a &= ~kSwizzles;
    b &= ~kSwizzles;
  } else if (mistake == Mistake::kWrongStride) {
    b += 64ULL << 32;  // 2048 bytes to the next eight rows
  } else if (mistake == Mistake::kOwnRowsInDescriptor) {
    a += threadIdx.x % kWarpgroup / 32 * (16 * 128 / 16);
  }
  if (mistake != Mistake::kNoFence) {
    begin_products();
  }
  for (int step = 0; step < kSteps; ++step) {
    multiply_async(sums, a + 2 * step, b + 2 * step);
  }
  if (mistake != Mistake::kNoCommit) {
    commit_products();
  }
}

void multiply(Shared& shared, float (&sums)[32], int depth, Mistake mistake) {
  RingPosition<kStages> at;
  for (int k = 0; k < depth; k += kTile) {
    const unsigned wrong = mistake == Mistake::kConsumerParity ||
                                   (mistake == Mistake::kConsumerParityLate && k + kTile >= depth)
                               ? 1
                               : 0;
    if (mistake != Mistake::kNoWaitForBoxes) {
      wait_for(shared.are_full[at.stage], at.parity ^ wrong);
    }
    if (mistake == Mistake::kConsumerWaitsOn) {
      wait_for(shared.are_full[at.stage], at.parity ^ 1U);
    }
    begin_stage(sums, shared, at.stage, mistake);
    if (mistake == Mistake::kReleaseBeforeWait) {
      release(shared.are_empty[at.stage]);
    }
    if (mistake == Mistake::kSumsBeforeWait) {
      sums[0] *= 2.0F;
    }
    if (mistake != Mistake::kNoWaitForProducts) {
      wait_for_products<0>();
    }
    if (mistake != Mistake::kReleaseBeforeWait && mistake != Mistake::kNoRelease) {
      release(shared.are_empty[at.stage]);
    }
    at.advance();
  }
}

__global__ void pipeline_kernel(const __grid_constant__ TensorMap a_map,
                                const __grid_constant__ TensorMap b_map, float* c, int depth,
                                Mistake mistake) {
  auto& shared = aligned_shared<Shared>();
  if (threadIdx.x == 0 && mistake != Mistake::kNoInit) {
    make_barriers(shared, mistake);
  }
  if (mistake != Mistake::kNoBarrierBehindInit) {
    __syncthreads();
  }
  if (warpgroup_index() == 0) {
    if (threadIdx.x == 0) {
      fetch(shared, a_map, b_map, depth, mistake);
    }
    return;
  }
  float sums[32] = {};
  multiply(shared, sums, depth, mistake);
  const int thread = static_cast<int>(threadIdx.x) % kWarpgroup;
  for (int i = 0; i < 32; ++i) {
    const int row = thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8;
    stg(&c[row * kTile + i / 4 * 8 + thread % 4 * 2 + i % 2], sums[i]);
  }
}

class Pipeline : public ::testing::Test {
 protected:
  static constexpr int kDepth = 5 * kTile;  // the ring goes round twice and a half

  // The largest difference from a loop.
  float worst(Mistake mistake) {
    Buffer<float> c("c", std::size_t{kTile} * kTile);
    launch(pipeline_kernel, one_block(2 * kWarpgroup, bytes_of<Shared>()),
           describe_matrix(a_.data(), kTile, kDepth, kTile),
           describe_matrix(b_.data(), kTile, kDepth, kTile), c.data(), kDepth, mistake);
    const std::vector<float> found = c.download();
    const std::vector<bf16> a = a_.download();
    const std::vector<bf16> b = b_.download();
    float most = 0.0F;
    for (int i = 0; i < kTile * kTile; ++i) {
      float expected = 0.0F;
      for (int k = 0; k < kDepth; ++k) {
        expected += static_cast<float>(at(a, i / kTile * kDepth + k)) *
                    static_cast<float>(at(b, i % kTile * kDepth + k));
      }
      const float difference = std::abs(at(found, i) - expected);
      most = difference <= most ? most : difference;
    }
    return most;
  }
  void expect_found(Mistake mistake, Fault fault, const std::vector<std::string>& parts) {
    expect_fault(fault, parts, [&] { worst(mistake); });
  }

  static std::vector<bf16> values(int factor) {
    std::vector<bf16> result;
    for (int i = 0; i < kTile * kDepth; ++i) {
      result.push_back(bf16(static_cast<float>(i * factor % 11 - 5)));
    }
    return result;
  }

  const Buffer<bf16> a_{"a", values(3)};
  const Buffer<bf16> b_{"b", values(7)};
};

TEST_F(Pipeline, IsRight) { EXPECT_EQ(worst(Mistake::kNone), 0.0F); }

TEST_F(Pipeline, TheParityBeforeMeetsNothingOrABoxOnItsWay) {
  expect_found(Mistake::kConsumerParity, Fault::kUninitialised,
               {"which nobody has written", "which parity is it"});
  expect_found(Mistake::kConsumerParityLate, Fault::kRace,
               {"to which the box of", "is on its way", "which parity is it"});
}

TEST_F(Pipeline, TheParityBehindHangs) {
  expect_found(Mistake::kConsumerWaitsOn, Fault::kBarrier,
               {"no thread can go on", "thread (128, 0, 0) waits for the phase of parity 1",
                "phase 1 has 0 of 1 arrivals and 0 of 0 bytes", "Hint: compare the parity"});
}

TEST_F(Pipeline, AProducerThatWaitsForItselfHangs) {
  expect_found(Mistake::kProducerParity, Fault::kBarrier,
               {"no thread can go on", "waits for the phase of parity 0",
                "phase 0 has 0 of 4 arrivals", "waits for the phase of parity 0"});
}

TEST_F(Pipeline, BytesThatAreNotAnnounced) {
  expect_found(Mistake::kTooFewBytes, Fault::kBarrier,
               {"phase 0 of the barrier", "completes with 1 of 1 arrivals and 8192 of 8192 bytes",
                "while the box of", "Hint: announce the bytes of all boxes"});
}

TEST_F(Pipeline, BytesThatNeverCome) {
  expect_found(Mistake::kTooManyBytes, Fault::kBarrier,
               {"no thread can go on", "1 of 1 arrivals and 16384 of 16400 bytes"});
}

TEST_F(Pipeline, BarriersMustBeMadeAndShown) {
  expect_found(Mistake::kNoInit, Fault::kBarrier, {"that nobody has made", "init_barrier()"});
  expect_found(Mistake::kNoPublish, Fault::kRace, {"TMA has not been shown", "publish_barriers()"});
  expect_found(Mistake::kNoBarrierBehindInit, Fault::kRace,
               {"which thread (0, 0, 0) makes with nothing in between", "__syncthreads()"});
}

TEST_F(Pipeline, ArrivalsAreCounted) {
  // With one warp's word the phases run away from their parities; with five, none completes.
  expect_found(Mistake::kTooManyArrivals, Fault::kBarrier,
               {"no thread can go on", "of 1 arrivals"});
  expect_found(Mistake::kTooFewArrivals, Fault::kBarrier,
               {"no thread can go on", "4 of 5 arrivals"});
  expect_found(Mistake::kNoRelease, Fault::kBarrier, {"no thread can go on", "0 of 4 arrivals"});
}

TEST_F(Pipeline, AStageThatIsReleasedTooEarly) {
  expect_found(Mistake::kReleaseBeforeWait, Fault::kRace,
               {"TMA writes byte", "wgmma of thread", "reads at",
                "wait for products before the stage is released"});
}

TEST_F(Pipeline, RegistersNeedTheFence) {
  expect_found(Mistake::kNoFence, Fault::kRace, {"expected wgmma.fence", "begin_products()"});
}

TEST_F(Pipeline, ProductsMustBeCommittedAndWaitedFor) {
  expect_found(Mistake::kNoCommit, Fault::kRace, {"TMA writes byte", "wgmma of thread"});
  expect_found(Mistake::kNoWaitForProducts, Fault::kRace, {"TMA writes byte", "wgmma of thread"});
}

TEST_F(Pipeline, SumsBelongToTheTensorCoresUntilTheWait) {
  expect_found(Mistake::kSumsBeforeWait, Fault::kRace,
               {"registers of sums have been written", "wait for the group first"});
}

TEST_F(Pipeline, AWrongDescriptorGivesWrongNumbersOrLeadsAway) {
  EXPECT_GT(worst(Mistake::kNoSwizzleInDescriptor), 1.0F);
  expect_found(Mistake::kOwnRowsInDescriptor, Fault::kWarpOperation,
               {"warps of a warpgroup multiply different matrices"});
  try {
    EXPECT_GT(worst(Mistake::kWrongStride), 1.0F);
  } catch (const SimtError& error) {
    EXPECT_NE(std::string(error.what()).find("multiplies byte"), std::string::npos);
  }
}

TEST_F(Pipeline, BoxesMustBeWaitedFor) {
  expect_found(Mistake::kNoWaitForBoxes, Fault::kUninitialised, {"which nobody has written"});
}

TEST_F(Pipeline, BoxesBeginAtMultiplesOf128) {
  expect_found(Mistake::kMisplacedBox, Fault::kMisaligned,
               {"a box at byte", "expected a multiple of 128"});
}

}  // namespace pipeline_mistakes_test
}  // namespace ultra::simt::test

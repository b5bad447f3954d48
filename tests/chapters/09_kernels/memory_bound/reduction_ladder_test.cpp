// What each rung of reduction changes, in counters.

#include <gtest/gtest.h>

#include "tests/chapters/09_kernels/ladder_fixture.hpp"

namespace ultra::ladders {
namespace {

using simt::AccessKind;

class ReductionLadder : public test::LadderTest {
 protected:
  ReductionLadder() : LadderTest("reduction", {static_cast<int>(kN)}) {}

  static constexpr std::uint64_t kBlocks = 20;  // of 256 threads
  static constexpr std::uint64_t kN = kBlocks * 256;
};

TEST_F(ReductionLadder, AtomicsAreOnePerElement) {
  EXPECT_EQ(counters_of("atomics").total(AccessKind::kGlobalAtomic).lanes, kN);
}

// Round r of 8 works with the threads that are multiples of 2^(r+1): in rounds 0 to 4 every warp
// has some and lacks some; then every 2nd, 4th and 8th warp has one.
TEST_F(ReductionLadder, ScatteredTreeDivergesInMostRounds) {
  const simt::Report report = counters_of("scattered_tree");
  EXPECT_EQ(report.total(AccessKind::kGlobalAtomic).lanes, kBlocks);
  EXPECT_EQ(report.total(AccessKind::kBranch).divergent, kBlocks * (5 * 8 + 4 + 2 + 1));
}

// The first 128, 64 and 32 threads are whole warps; then 16, 8, 4, 2 and 1 threads are parts of
// one.
TEST_F(ReductionLadder, DenseTreeDivergesInOneWarp) {
  const simt::Report report = counters_of("dense_tree");
  EXPECT_EQ(report.total(AccessKind::kBranch).divergent, kBlocks * 5);
  const simt::Site loads = report.total(AccessKind::kSharedLoad);
  EXPECT_EQ(loads.requests, kBlocks * (2 * (4 + 2 + 1 + 5) + 1));
  EXPECT_EQ(loads.wavefronts, loads.requests);
}

TEST_F(ReductionLadder, ShufflesNeedSharedMemoryOncePerWarp) {
  const simt::Report report = counters_of("warp_shuffles");
  EXPECT_EQ(report.total(AccessKind::kSharedStore).lanes, kN / 32);
  EXPECT_EQ(report.total(AccessKind::kSharedLoad).requests, kBlocks);
  EXPECT_EQ(report.total(AccessKind::kGlobalAtomic).lanes, kBlocks);
}

TEST_F(ReductionLadder, TwoLaunchesReadOnceInVectorsWithoutAtomics) {
  const simt::Report report = counters_of("two_launches");
  ASSERT_EQ(report.launches.size(), 2U);
  const std::uint64_t blocks = kN / (4 * 256);
  EXPECT_EQ(report.launches.front().grid.x, blocks);
  EXPECT_EQ(report.total(AccessKind::kGlobalAtomic).requests, 0U);
  // The partial sums are one request of one sector, and a store each.
  const simt::Site loads = report.total(AccessKind::kGlobalLoad);
  EXPECT_EQ(loads.requests, kN / (4 * 32) + 1);
  EXPECT_EQ(loads.sectors, kN / 8 + 1);
  EXPECT_EQ(report.total(AccessKind::kGlobalStore).lanes, blocks + 1);
}

}  // namespace
}  // namespace ultra::ladders

// What each rung of divergence, reduction and quantize_fp8 changes, in counters.

#include "kernels/ladders/basics/small_launches/small_launches.hpp"
#include "kernels/simt/buffer.hpp"
#include "kernels/simt/recording.hpp"
#include "tests/chapters/09_kernels/ladder_fixture.hpp"

namespace ultra::ladders::warp_ladders_test {

using simt::AccessKind;

// Whole blocks, so that every warp is full.
class DivergenceLadder : public test::LadderTest {
 protected:
  DivergenceLadder() : LadderTest("divergence", {32, 64}) {}

  static constexpr double kElements = 2 * 32 * 64;
};

// Of a warp, two branches with all lanes, and on each side four loads and a store with half of
// them. A side touches all 4 sectors of in, twice, 2 of each table, and all 4 of out: 32 for 32
// elements.
TEST_F(DivergenceLadder, BranchedWorksWithHalfTheLanes) {
  const simt::Report report = counters_of("branched");
  EXPECT_EQ(report.total(AccessKind::kGlobalLoad).lanes_per_request(), 16.0);
  EXPECT_EQ(report.active_lanes(), (2 * 32.0 + 10 * 16.0) / 12.0);
  EXPECT_EQ(report.metric("smsp__thread_inst_executed_per_inst_executed.ratio"),
            report.active_lanes());
  EXPECT_EQ(static_cast<double>(report.total(AccessKind::kBranch).divergent), kElements / 32);
  EXPECT_EQ(bytes_moved(report), 32.0 * kElements);
}

TEST_F(DivergenceLadder, PairedMovesTheLeast) {
  const simt::Report report = counters_of("paired");
  EXPECT_EQ(report.active_lanes(), 32.0);
  EXPECT_EQ(bytes_moved(report), least_bytes());
  EXPECT_EQ(least_bytes(), 12.0 * kElements);
}

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

class QuantizeFp8Ladder : public test::LadderTest {
 protected:
  QuantizeFp8Ladder() : LadderTest("quantize_fp8", {8, 512}) {}

  static constexpr std::uint64_t kBf16 = 2 * 8 * 512 / 32;  // sectors of a matrix
};

// Each of 128 loads of a group's thread touches a sector of its own; then all is read once more.
TEST_F(QuantizeFp8Ladder, AThreadPerGroupReadsASectorForEachElement) {
  const std::uint64_t elements = 8 * 512;
  const std::uint64_t scales_again = elements / 32;  // one word for a warp
  EXPECT_EQ(counters_of("two_kernels").total(AccessKind::kGlobalLoad).sectors,
            elements + kBf16 + scales_again);
}

TEST_F(QuantizeFp8Ladder, OneKernelReadsOnce) {
  for (const char* rung : {"warp_per_group", "vectorised"}) {
    EXPECT_EQ(bytes_asked(counters_of(rung)), least_bytes()) << rung;
    EXPECT_EQ(counters_of(rung).total(AccessKind::kGlobalLoad).sectors, kBf16) << rung;
  }
}

TEST_F(QuantizeFp8Ladder, SixteenLanesPerGroupTakeHalfOfTheRequests) {
  const auto loads = [&](const char* rung) {
    return counters_of(rung).total(AccessKind::kGlobalLoad).requests;
  };
  EXPECT_EQ(loads("warp_per_group"), 2 * loads("vectorised"));
}

}  // namespace ultra::ladders::warp_ladders_test

// What the rungs of small_launches read, and what a recording keeps.
namespace ultra::ladders::small_launches_ladder_test {

using simt::AccessKind;

using SmallLaunchesLadder = test::LadderOf<"small_launches", 6, 256>;

// Each row of weights once, and the vector for each of them.
TEST_F(SmallLaunchesLadder, ReadsEachWeightOnce) {
  EXPECT_EQ(counters_of("programmatic").total(AccessKind::kGlobalLoad).bytes,
            2U * 4 * 6 * 256 * 256);
}

// A replay does what was recorded, whatever it is given later.
TEST(SmallLaunches, ARecordingKeepsItsArguments) {
  const std::vector<float> weights(16, 0.5F);
  const std::vector<float> ones(4, 1.0F);
  const std::vector<float> twos(4, 2.0F);
  const simt::Buffer<float> w("weights", weights);
  const simt::Buffer<float> first("first", ones);
  const simt::Buffer<float> second("second", twos);
  simt::Buffer<float> out("states", std::size_t{4});
  simt::Recording recording(simt::Executor::kChecked);
  kernels::small_launches::Problem problem{.layers = 1,
                                           .hidden = 4,
                                           .weights = w.data(),
                                           .x = first.data(),
                                           .states = out.data(),
                                           .recording = &recording};
  kernels::small_launches::recorded<simt::Executor::kChecked>(problem, {});
  EXPECT_THAT(out.download(), testing::Each(2.0F));
  problem.x = second.data();
  kernels::small_launches::recorded<simt::Executor::kChecked>(problem, {});
  EXPECT_THAT(out.download(), testing::Each(2.0F));
}

}  // namespace ultra::ladders::small_launches_ladder_test

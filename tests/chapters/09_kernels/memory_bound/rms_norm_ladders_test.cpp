// What each rung of rms_norm and of rms_norm_backward changes, in counters: sectors are counted in
// units of one matrix read or written once.

#include <gtest/gtest.h>

#include "kernels/ladders/rows/rms_norm_backward/rms_norm_backward.hpp"
#include "tests/chapters/09_kernels/ladder_fixture.hpp"

namespace ultra::ladders {
namespace rms_norm_ladders_test {

using simt::AccessKind;

constexpr std::uint64_t kRows = 32;  // a warp of rung 1
constexpr std::uint64_t kHidden = 512;
constexpr std::uint64_t kMatrix = kRows * kHidden / 8;  // sectors

class RmsNormLadder : public test::LadderTest {
 protected:
  RmsNormLadder() : LadderTest("rms_norm", {kRows, kHidden}) {}
};

TEST_F(RmsNormLadder, AThreadPerRowTouchesASectorPerLane) {
  const simt::Report report = counters_of("thread_per_row");
  // The addition is coalesced. Every load of h and store of y takes 32 sectors for 128 bytes, 8
  // times what is needed; h is loaded twice; a load of weight is one address.
  expect_sectors(report, 2 * kMatrix + 2 * 8 * kMatrix + kHidden,
                 kMatrix + 8 * kMatrix + kRows / 8);
}

TEST_F(RmsNormLadder, AWarpPerRowTouchesFourSectors) {
  const simt::Report report = counters_of("warp_per_row");
  // x and residual; h twice; weight for each row.
  expect_sectors(report, 5 * kMatrix, 2 * kMatrix + kRows);
  EXPECT_EQ(report.total(AccessKind::kGlobalLoad).sectors_per_request(), 4.0);
}

TEST_F(RmsNormLadder, VectorsTakeAQuarterOfTheRequests) {
  const simt::Site scalar = counters_of("warp_per_row").total(AccessKind::kGlobalLoad);
  const simt::Site vector = counters_of("vectorised").total(AccessKind::kGlobalLoad);
  EXPECT_EQ(vector.sectors, scalar.sectors);
  EXPECT_EQ(4 * vector.requests, scalar.requests);
}

TEST_F(RmsNormLadder, RegistersSaveTheSecondRead) {
  expect_sectors(counters_of("in_registers"), 4 * kMatrix, 2 * kMatrix + kRows);
}

TEST_F(RmsNormLadder, FusedMovesTheLeast) {
  const simt::Report report = counters_of("fused");
  EXPECT_EQ(report.launches.size(), 1U);
  expect_sectors(report, 3 * kMatrix, 2 * kMatrix + kRows);
  EXPECT_EQ(report.total(AccessKind::kGlobalLoad).sectors_per_request(), 16.0);
  // All but weight, which every row reads, comes and goes once.
  constexpr double kRepeated = (kRows - 1) * kHidden * sizeof(float);
  EXPECT_EQ(bytes_asked(report) - kRepeated, least_bytes());
}

TEST_F(RmsNormLadder, RowsOfABlockHaveALimit) {
  for (const char* rung : {"in_registers", "fused"}) {
    expect_right_bare(rung, {1, 16384});
    expect_right_bare(rung, {1, 16383});
    EXPECT_NE(refusal_of(rung, {1, 16385}), "");
  }
}

class RmsNormBackwardLadder : public test::LadderTest {
 protected:
  RmsNormBackwardLadder() : LadderTest("rms_norm_backward", {kRows, kHidden}) {}
};

TEST_F(RmsNormBackwardLadder, AThreadPerRowAddsWholeWarpsToOneAddress) {
  const simt::Report report = counters_of("thread_per_row");
  const simt::Site atomics = report.total(AccessKind::kGlobalAtomic);
  EXPECT_EQ(atomics.lanes, kRows * kHidden);
  EXPECT_EQ(atomics.requests, kHidden);
  EXPECT_EQ(atomics.sectors_per_request(), 1.0);
  // d_y and x, twice each, with 8 times the sectors that are needed; weight, twice, one address
  // each; the reciprocals.
  EXPECT_EQ(report.total(AccessKind::kGlobalLoad).sectors,
            4 * 8 * kMatrix + 2 * kHidden + kRows / 8);
}

TEST_F(RmsNormBackwardLadder, AWarpPerRowAddsToNeighbours) {
  const simt::Report report = counters_of("warp_per_row");
  const simt::Site atomics = report.total(AccessKind::kGlobalAtomic);
  EXPECT_EQ(atomics.lanes, kRows * kHidden);
  EXPECT_EQ(atomics.sectors_per_request(), 4.0);
  EXPECT_EQ(report.total(AccessKind::kGlobalLoad).sectors, 6 * kMatrix + kRows);
}

TEST_F(RmsNormBackwardLadder, TwoStagesReadOnceAndNeedNoAtomics) {
  const simt::Report report = counters_of("two_stages");
  EXPECT_EQ(report.total(AccessKind::kGlobalAtomic).requests, 0U);
  const std::uint64_t warps = kHidden / 32 / kernels::rms_norm_backward::kElementsPerThread;
  const std::uint64_t partials =
      static_cast<std::uint64_t>(kernels::rms_norm_backward::partials_of(kRows)) * kHidden / 8;
  // d_y, x and weight, a reciprocal for each warp of a row; then the partial sums.
  expect_sectors(report, 3 * kMatrix + kRows * warps + partials, kMatrix + partials + kHidden / 8);
}

TEST_F(RmsNormBackwardLadder, PartialSumsGoOverManyRows) {
  // Three rows for some blocks, of more than one warp, with and without vectors.
  expect_right("two_stages", {.sizes = {540, 260}});
  for (const int hidden : {516, 259}) {
    expect_right_bare("two_stages", {600, hidden});
  }
}

TEST_F(RmsNormBackwardLadder, RowsOfABlockHaveALimit) {
  expect_right_bare("two_stages", {2, 8192});
  EXPECT_NE(refusal_of("two_stages", {2, 8193}), "");
}

}  // namespace rms_norm_ladders_test
}  // namespace ultra::ladders

// What each rung of divergence changes, in counters.

#include <gtest/gtest.h>

#include "tests/chapters/09_kernels/ladder_fixture.hpp"

namespace ultra::ladders {
namespace {

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

// A warp has 32 elements that lie 2 apart: 8 sectors of in, twice, 4 of each table, 8 of out.
TEST_F(DivergenceLadder, SortedWorksWithAllLanesOnScatteredElements) {
  const simt::Report report = counters_of("sorted");
  EXPECT_EQ(report.active_lanes(), 32.0);
  EXPECT_EQ(report.total(AccessKind::kBranch).divergent, 0U);
  expect_sectors_per_request(report, (8 + 8 + 4 + 4) / 4.0, 8.0);
  EXPECT_EQ(bytes_moved(report), 32.0 * kElements);
}

// Of a warp: 4 sectors of in, twice, 2 of each table, 4 of out.
TEST_F(DivergenceLadder, ArithmeticHasNeighboursAndAllLanes) {
  const simt::Report report = counters_of("arithmetic");
  EXPECT_EQ(report.active_lanes(), 32.0);
  EXPECT_EQ(report.total(AccessKind::kBranch).divergent, 0U);
  EXPECT_EQ(bytes_moved(report), 16.0 * kElements);
}

TEST_F(DivergenceLadder, PairedMovesTheLeast) {
  const simt::Report report = counters_of("paired");
  EXPECT_EQ(report.active_lanes(), 32.0);
  EXPECT_EQ(bytes_moved(report), least_bytes());
  EXPECT_EQ(least_bytes(), 12.0 * kElements);
}

}  // namespace
}  // namespace ultra::ladders

// What each rung of rms_norm changes, in counters: sectors are counted in units of one matrix read
// or written once.

#include <gtest/gtest.h>

#include "tests/chapters/09_kernels/ladder_fixture.hpp"

namespace ultra::ladders {
namespace {

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

}  // namespace
}  // namespace ultra::ladders

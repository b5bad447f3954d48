// What each rung of rope changes, in counters: sectors are counted in units of half of all heads,
// the first or the second elements of all pairs.

#include <gtest/gtest.h>

#include "tests/chapters/09_kernels/ladder_fixture.hpp"

namespace ultra::ladders {
namespace {

using simt::AccessKind;

constexpr std::uint64_t kTokens = 2;
constexpr std::uint64_t kHeads = 6 + 2;
constexpr std::uint64_t kPairs = 128;  // four pairs for each lane of a warp
constexpr std::uint64_t kHalf = kTokens * kHeads * kPairs / 8;  // sectors
constexpr std::uint64_t kScalarWarps = kTokens * kHeads * kPairs / 32;

class RopeLadder : public test::LadderTest {
 protected:
  RopeLadder() : LadderTest("rope", {kTokens, 6, 2, kPairs}) {}
};

TEST_F(RopeLadder, ComputedAnglesReadNoTable) {
  // Both halves, and a position for each warp.
  expect_sectors(counters_of("computed_angles"), 2 * kHalf + kScalarWarps, 2 * kHalf);
}

TEST_F(RopeLadder, ATableIsReadForEveryHead) {
  const simt::Report report = counters_of("table");
  EXPECT_EQ(report.total(AccessKind::kGlobalLoad).sectors, 4 * kHalf + kScalarWarps);
  EXPECT_EQ(report.total(AccessKind::kGlobalStore).sectors_per_request(), 4.0);
}

TEST_F(RopeLadder, VectorsTakeAQuarterOfTheRequests) {
  const simt::Report scalar = counters_of("table");
  const simt::Report vector = counters_of("vectorised");
  EXPECT_EQ(4 * vector.total(AccessKind::kGlobalLoad).requests,
            scalar.total(AccessKind::kGlobalLoad).requests);
  EXPECT_EQ(vector.total(AccessKind::kGlobalStore).sectors, 2 * kHalf);
  EXPECT_EQ(vector.total(AccessKind::kGlobalStore).sectors_per_request(), 16.0);
}

TEST_F(RopeLadder, FusedReadsTheTableFourTimesPerToken) {
  const simt::Report report = counters_of("fused");
  EXPECT_EQ(report.launches.size(), 1U);
  const std::uint64_t strips = kTokens * 4;  // a warp each
  expect_sectors(report, 2 * kHalf + strips * 2 * kPairs / 8 + strips, 2 * kHalf);
  EXPECT_EQ(report.total(AccessKind::kGlobalStore).sectors_per_request(), 16.0);
}

TEST_F(RopeLadder, TurnsForwardAndBack) {
  for (const RungInfo& rung : ladder().rungs()) {
    for (const std::uint64_t seed : {1U, 2U}) {
      test::expect_right(ladder(), rung.number,
                         {.sizes = {7, 3, 1, 20}, .seed = seed, .side = simt::Side::kBare});
    }
  }
}

TEST_F(RopeLadder, FarPositionsAreAsExactAsNearOnes) {
  for (const RungInfo& rung : ladder().rungs()) {
    test::expect_right(ladder(), rung.number,
                       {.sizes = {6000, 1, 1, 4}, .side = simt::Side::kBare});
  }
}

}  // namespace
}  // namespace ultra::ladders

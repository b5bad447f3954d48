// What each rung of softmax and of rope changes, in counters.

#include "tests/chapters/09_kernels/ladder_fixture.hpp"

namespace ultra::ladders::softmax_and_rope_ladders_test {

using simt::AccessKind;

// Rows that begin at a sector, and fill warps.
class SoftmaxLadder : public test::LadderTest {
 protected:
  SoftmaxLadder() : LadderTest("softmax", {kRows, kColumns}) {}

  static constexpr int kRows = 32;
  static constexpr int kColumns = 256;
  static constexpr std::uint64_t kElements = std::uint64_t{kRows} * kColumns;
  static constexpr std::uint64_t kSectors = kElements / 8;  // of one read or write of the matrix
};

TEST_F(SoftmaxLadder, ThreadPerRowTouchesASectorPerLane) {
  const simt::Report report = counters_of("thread_per_row");
  EXPECT_EQ(report.total(AccessKind::kGlobalLoad).lanes, 3 * kElements);
  expect_sectors_per_request(report, 32.0, 32.0);
}

// One more request of a row: its first element, for all lanes.
TEST_F(SoftmaxLadder, WarpPerRowReadsThreeTimes) {
  expect_sectors(counters_of("warp_per_row"), 3 * kSectors + kRows, kSectors);
}

TEST_F(SoftmaxLadder, RegistersReadOnceInVectors) {
  for (const char* const rung : {"registers", "block_per_row"}) {
    SCOPED_TRACE(rung);
    const simt::Report report = counters_of(rung);
    EXPECT_EQ(report.total(AccessKind::kGlobalLoad).requests, kElements / (4 * 32));
    EXPECT_EQ(report.total(AccessKind::kGlobalStore).requests, kElements / (4 * 32));
    EXPECT_EQ(bytes_moved(report), least_bytes());
  }
}

TEST_F(SoftmaxLadder, LongRowsReadTwiceInVectors) {
  const simt::Report report = counters_of("long_rows");
  EXPECT_EQ(report.total(AccessKind::kGlobalLoad).sectors, 2 * kSectors);
  EXPECT_EQ(report.total(AccessKind::kGlobalLoad).requests, 2 * kElements / (4 * 32));
  EXPECT_EQ(report.total(AccessKind::kGlobalStore).sectors, kSectors);
}

constexpr std::uint64_t kTokens = 2;
constexpr std::uint64_t kHeads = 6 + 2;
constexpr std::uint64_t kPairs = 128;  // four pairs for each lane of a warp
constexpr std::uint64_t kHalf = kTokens * kHeads * kPairs / 8;  // sectors
constexpr std::uint64_t kScalarWarps = kTokens * kHeads * kPairs / 32;

using RopeLadder = test::LadderOf<"rope", kTokens, 6, 2, kPairs>;

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

}  // namespace ultra::ladders::softmax_and_rope_ladders_test

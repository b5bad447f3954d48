// What each rung of softmax and of rope changes, in counters.

#include <gtest/gtest.h>

#include "tests/chapters/09_kernels/ladder_fixture.hpp"

namespace ultra::ladders {
namespace softmax_and_rope_ladders_test {

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

TEST_F(SoftmaxLadder, OnlineReadsTwice) {
  expect_sectors(counters_of("online"), 2 * kSectors, kSectors);
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

// Lengths around the limits between the kernels that the launchers choose from.
TEST_F(SoftmaxLadder, BlocksAndRegistersTakeRowsOfManyLengths) {
  for (const int columns : {1, 3, 128, 129, 255, 256, 260, 512, 515, 1024, 1028, 2047, 2048}) {
    expect_right_bare("registers", {5, columns});
  }
  for (const int columns : {1, 31, 513, 4096, 16384, 16388, 32767, 32768}) {
    expect_right_bare("block_per_row", {2, columns});
  }
  expect_right("long_rows", {.sizes = {1, 8196}});
  for (const int columns : {8191, 8192, 8193, 8196, 40000}) {
    expect_right_bare("long_rows", {2, columns});
  }
}

TEST_F(SoftmaxLadder, RefusesRowsThatDoNotFit) {
  EXPECT_NE(refusal_of("registers", {4, 2049}).find("2049 columns"), std::string::npos);
  EXPECT_EQ(refusal_of("block_per_row", {4, 2049}), "");
  EXPECT_NE(refusal_of("block_per_row", {4, 32769}).find("at most 32768"), std::string::npos);
  EXPECT_EQ(refusal_of("online", {4, 32769}), "");
}

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
                         {.sizes = {7, 3, 1, 20}, .seed = seed, .executor = simt::Executor::kFast});
    }
  }
}

TEST_F(RopeLadder, FarPositionsAreAsExactAsNearOnes) {
  for (const RungInfo& rung : ladder().rungs()) {
    test::expect_right(ladder(), rung.number,
                       {.sizes = {6000, 1, 1, 4}, .executor = simt::Executor::kFast});
  }
}

}  // namespace softmax_and_rope_ladders_test
}  // namespace ultra::ladders
